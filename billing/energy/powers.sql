-- One row: a segment's energy, and the part of it that the device would have drawn doing nothing.
-- Units:   nanojoules; measured_ms.
-- Shape:   reported by everybody's stream on the device, and by that of the workload that is alone there. Where both speak of
--          the same time, the one that speaks of more of it counts.
CREATE TABLE {powers:Identifier} ENGINE = Memory AS
WITH
    spoken AS
    (
        SELECT state_id, start_ms, stream, any((power_ms, nanojoules, begins, ends)) AS reading
        FROM {measured:Identifier}
        WHERE of_power AND power_ms > 0 AND NOT is_unclear
        GROUP BY state_id, start_ms, stream
    ),
    power AS
    (
        SELECT
            state_id, start_ms,
            count() = 1 OR max(reading.3) >= min(reading.4) AS apart,
            if(apart, sum(reading.1), max(reading.1)) AS measured_ms,
            if(apart, sum(reading.2), max((reading.1, reading.2)).2) AS energy
        FROM spoken
        GROUP BY state_id, start_ms
    )
SELECT states.state_id AS state_id, power.start_ms AS start_ms, states.device AS device, toInt64(states.units) AS device_units,
    power.measured_ms AS measured_ms, power.energy AS energy,
    least(power.energy, if(power.start_ms < figures.to_ms, figures.microwatts * power.measured_ms, 0)) AS idle_energy
FROM power
INNER JOIN {states:Identifier} AS states ON power.state_id = states.state_id
ASOF LEFT JOIN {idle_power:Identifier} AS figures ON states.model = figures.model AND power.start_ms >= figures.from_ms
