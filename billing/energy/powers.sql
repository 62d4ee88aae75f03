-- One row: a segment's energy, and the part of it that the device would have drawn doing nothing.
-- Units:   nanojoules; measured_ms.
-- Shape:   told by everybody's stream on the device, and by that of the workload that is alone there. Where both speak of
--          the same time, the one that speaks of more of it counts.
CREATE TABLE {powers:Identifier} ENGINE = Memory AS
WITH
    streams AS
    (
        SELECT state_id, start_ms, cityHash64(cluster, device_id, '', '') AS stream
        FROM (SELECT state_id, start_ms FROM {segments:Identifier}) AS segments
        INNER JOIN (SELECT state_id, cluster, device_id FROM {states:Identifier}) AS states ON segments.state_id = states.state_id
        UNION ALL
        SELECT state_id, start_ms, stream_3 AS stream
        FROM
        (
            SELECT state_id, start_ms, active[1].1 AS claim
            FROM {segments:Identifier}
            WHERE available AND length(arrayDistinct(active.3)) = 1
        ) AS alone
        INNER JOIN (SELECT claim, stream_3 FROM {settled:Identifier}) AS claims ON alone.claim = claims.claim
    ),
    power AS
    (
        SELECT
            state_id, start_ms,
            count() = 1 OR max(begins) >= min(ends) AS apart,
            if(apart, sum(power_ms), max(power_ms)) AS measured_ms,
            if(apart, sum(nanojoules), argMax(nanojoules, (power_ms, nanojoules))) AS energy
        FROM streams
        INNER JOIN {measured:Identifier} AS measured ON streams.stream = measured.stream AND streams.start_ms = measured.start_ms
        WHERE power_ms > 0
        GROUP BY state_id, start_ms
    )
SELECT states.state_id AS state_id, power.start_ms AS start_ms, states.device AS device, toInt64(states.units) AS device_units,
    power.measured_ms AS measured_ms, power.energy AS energy,
    least(power.energy, if(power.start_ms < figures.to_ms, figures.microwatts * power.measured_ms, 0)) AS idle_energy
FROM power
INNER JOIN {states:Identifier} AS states ON power.state_id = states.state_id
ASOF LEFT JOIN {idle_power:Identifier} AS figures ON states.model = figures.model AND power.start_ms >= figures.from_ms
