-- One row: a segment's energy, and the part of it that the device would have drawn doing nothing.
-- Units:   nanojoules; measured_ms.
-- Shape:   where both levels speak of the same time, the one that speaks of more of it counts.
CREATE TABLE {powers:Identifier} ENGINE = Memory AS
WITH
    power AS
    (
        SELECT
            id AS state_id, start_ms,
            sumIf(covered_ms, level = 4) AS by_all, sumIf(covered_ms, level = 3) AS by_one,
            sumIf(amount, level = 4) AS of_all, sumIf(amount, level = 3) AS of_one,
            count() = 1 OR max(begins) >= min(ends) AS apart,
            multiIf(apart, by_all + by_one, by_all >= by_one, by_all, by_one) AS measured_ms,
            multiIf(apart, of_all + of_one, by_all >= by_one, of_all, of_one) AS energy
        FROM {measured:Identifier}
        WHERE memory = 0
        GROUP BY id, start_ms
    )
SELECT states.state_id AS state_id, power.start_ms AS start_ms, states.device AS device, toInt64(states.units) AS device_units,
    power.measured_ms AS measured_ms, power.energy AS energy,
    least(power.energy, if(power.start_ms < figures.to_ms, figures.microwatts * power.measured_ms, 0)) AS idle_energy
FROM power
INNER JOIN {states:Identifier} AS states ON power.state_id = states.state_id
ASOF LEFT JOIN {idle_power:Identifier} AS figures ON states.model = figures.model AND power.start_ms >= figures.from_ms
