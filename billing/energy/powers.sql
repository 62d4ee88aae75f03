-- One row: a segment's energy, and the part of it that the device would have drawn doing nothing.
-- Units:   nanojoules; measured_ms.
-- Shape:   reported by everybody's stream on the device (device_*), and by that of the workload that is alone there
--          (workload_*), the same for all of its allocations. Where both speak of the same time, the one that speaks of
--          more of it counts.
CREATE TABLE {powers:Identifier} ENGINE = Memory AS
WITH
    spoken AS
    (
        SELECT
            state_id, start_ms,
            anyIf(power_ms, level = 3) AS workload_ms, anyIf(nanojoules, level = 3) AS workload_energy,
            anyIf(power_ms, level = 4) AS device_ms, anyIf(nanojoules, level = 4) AS device_energy,
            workload_ms = 0 OR device_ms = 0 OR max(begins) >= min(ends) AS apart
        FROM {measured:Identifier}
        WHERE of_power AND power_ms > 0 AND NOT is_unclear
        GROUP BY state_id, start_ms
    ),
    power AS
    (
        SELECT
            state_id, start_ms,
            if(apart, workload_ms + device_ms, greatest(workload_ms, device_ms)) AS measured_ms,
            multiIf(
                apart, workload_energy + device_energy,
                (workload_ms, workload_energy) > (device_ms, device_energy), workload_energy,
                device_energy) AS energy
        FROM spoken
    )
SELECT states.state_id AS state_id, power.start_ms AS start_ms, states.device AS device, toInt64(states.units) AS device_units,
    power.measured_ms AS measured_ms, power.energy AS energy,
    least(power.energy, if(power.start_ms < figures.to_ms, figures.microwatts * power.measured_ms, 0)) AS idle_energy
FROM power
INNER JOIN {states:Identifier} AS states ON power.state_id = states.state_id
ASOF LEFT JOIN {idle_power:Identifier} AS figures ON states.model = figures.model AND power.start_ms >= figures.from_ms
