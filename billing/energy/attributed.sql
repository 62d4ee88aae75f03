-- One row: an energy entry (see energy_entries).
-- Shape:   a segment's energy is divided. Its idle part (idle power x measured time, at most all) goes by share held,
--          what is free or unavailable to the platform. The rest goes by share used; where nobody used anything or
--          somebody's use is not known, by share held. The use of a segment is that of its covered time.
-- Units:   nanojoules by segment, cut down; then whole millijoules by device and hour: what is missing to the device's
--          energy goes, one each, to those who lost most. So the rows of a device and hour sum to its energy.
--          The platform has no sku.
-- Params:  midnights = local midnights (ms) inside an hour, for billing zones that are not whole hours from UTC.
CREATE TABLE {energy:Identifier} ENGINE = Memory AS
WITH
    used AS
    (
        SELECT claim, start_ms, covered_ms, used AS used_one_way, cap_of_level AS cap_one_way,
            toInt64(0) AS used_of_partition, toInt64(1) AS partition_cap, toInt64(0) AS used_of_device, toInt64(1) AS device_cap
        FROM {metered:Identifier}
        WHERE levels = 1
        UNION ALL
        SELECT claim, start_ms, covered_ms, toInt64(0) AS used_one_way, toInt64(1) AS cap_one_way,
            used_of_partition, partition_cap, used_of_device, device_cap
        FROM {several:Identifier}
    ),
    memory AS
    (
        SELECT id AS claim, start_ms, argMin((covered_ms, amount, level), level) AS best
        FROM {measured:Identifier}
        WHERE memory = 1
        GROUP BY claim, start_ms
    ),
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
    ),
    parts AS
    (
        SELECT
            hour, holdings.start_ms AS start_ms, end_ms, state_id, holdings.claim AS claim, toInt64(holdings.units) AS units, subject,
            covered_ms > 0 AS use_known,
            if(use_known, intDiv(
                intDiv(toInt128(used_one_way) * units, greatest(1, cap_one_way) * 1000)
                    + intDiv(toInt128(used_of_partition) * units, greatest(1, partition_cap) * 1000)
                    + intDiv(toInt128(used_of_device) * units, greatest(1, device_cap) * 1000), covered_ms), 0) AS micro_units,
            memory.best.1 AS memory_ms,
            if(memory_ms > 0, toInt64(intDiv(toInt128(memory.best.2) * units, arrayFirst(way -> way.1 = memory.best.3, ways).4)), 0) AS byte_ms
        FROM {holdings:Identifier} AS holdings
        LEFT JOIN used ON holdings.claim = used.claim AND holdings.start_ms = used.start_ms
        LEFT JOIN memory ON holdings.claim = memory.claim AND holdings.start_ms = memory.start_ms
        UNION ALL
        SELECT
            hour, start_ms, end_ms, state_id, toUInt64(0) AS claim,
            toInt64(device_units) - if(available, toInt64(held_units), 0) AS units, toUInt64(0) AS subject,
            true AS use_known, toInt128(0) AS micro_units, toInt64(0) AS memory_ms, toInt64(0) AS byte_ms
        FROM {segments:Identifier}
        WHERE NOT available OR held_units != device_units
    ),
    use AS
    (
        SELECT state_id, start_ms, sum(micro_units) AS micro_units, min(use_known) AS known
        FROM parts
        GROUP BY state_id, start_ms
    ),
    idle AS
    (
        SELECT states.state_id AS state_id, power.start_ms AS start_ms, states.device AS device, toInt64(states.units) AS device_units,
            power.measured_ms AS measured_ms, power.energy AS energy,
            least(power.energy, if(power.start_ms < figures.to_ms, figures.microwatts * power.measured_ms, 0)) AS idle_energy
        FROM power
        INNER JOIN {states:Identifier} AS states ON power.state_id = states.state_id
        ASOF LEFT JOIN {idle_power:Identifier} AS figures ON states.model = figures.model AND power.start_ms >= figures.from_ms
    ),
    divided AS
    (
        SELECT
            parts.hour AS hour, parts.start_ms AS start_ms, parts.state_id AS state_id, claim, subject,
            idle.measured_ms AS measured_ms,
            idle.measured_ms * units AS measured_unit_ms,
            memory_ms * units AS memory_measured_unit_ms,
            byte_ms,
            use.known AND use.micro_units > 0 AS by_use,
            if(measured_ms = 0, toInt64(0), toInt64(
                intDiv(toInt128(if(by_use, idle.idle_energy, idle.energy)) * units, greatest(1, idle.device_units))
                + if(by_use, intDiv(toInt128(idle.energy - idle.idle_energy) * parts.micro_units, use.micro_units), 0))) AS nanojoules
        FROM parts
        INNER JOIN use ON parts.state_id = use.state_id AND parts.start_ms = use.start_ms
        LEFT JOIN idle ON parts.state_id = idle.state_id AND parts.start_ms = idle.start_ms
        WHERE measured_ms > 0 OR memory_ms > 0
    ),
    summed AS
    (
        SELECT
            hour, claim, state_id,
            if(divided.start_ms < prices.to_ms, price, 0) AS price_id,
            min(divided.start_ms) AS since,
            sum(measured_unit_ms) AS measured_unit_ms,
            sum(nanojoules) AS nanojoules,
            sum(byte_ms) AS byte_ms,
            sum(memory_measured_unit_ms) AS memory_measured_unit_ms
        FROM divided
        ASOF LEFT JOIN {prices:Identifier} AS prices ON divided.subject = prices.subject AND divided.start_ms >= prices.from_ms
        GROUP BY hour, claim, state_id, price_id, arrayCount(x -> x <= divided.start_ms, {midnights:Array(Int64)})
    ),
    devices_energy AS
    (
        SELECT device, toUInt32(intDiv(start_ms, 3600000)) AS hour, intDiv(sum(energy) + 500000, 1000000) AS millijoules
        FROM idle
        GROUP BY device, hour
    ),
    ranked AS
    (
        SELECT
            summed.hour AS hour, summed.claim AS claim, summed.state_id AS state_id, summed.price_id AS price_id, summed.since AS since,
            summed.nanojoules AS nanojoules, summed.byte_ms AS byte_ms,
            summed.measured_unit_ms AS measured_unit_ms, summed.memory_measured_unit_ms AS memory_measured_unit_ms,
            summed.measured_unit_ms > 0 AS is_measured,
            intDiv(nanojoules, 1000000) AS whole,
            devices_energy.millijoules - sum(if(is_measured, whole, 0)) OVER (PARTITION BY states.device, summed.hour) AS missing,
            row_number() OVER (
                PARTITION BY states.device, summed.hour, is_measured
                ORDER BY nanojoules % 1000000 DESC, claim, since, price_id) AS place
        FROM summed
        INNER JOIN (SELECT state_id, device FROM {states:Identifier}) AS states ON summed.state_id = states.state_id
        LEFT JOIN devices_energy ON states.device = devices_energy.device AND summed.hour = devices_energy.hour
    )
SELECT
    toDateTime(toUInt32(ranked.hour * 3600), 'UTC') AS hour,
    states.cluster AS cluster,
    states.node AS node,
    states.device_id AS device_id,
    states.model AS model,
    states.pool AS pool,
    states.units AS device_units,
    claims.tenant AS tenant,
    claims.project AS project,
    claims.queue AS queue,
    claims.workload_id AS workload_id,
    claims.allocation_id AS allocation_id,
    claims.preemptible AS preemptible,
    prices.sku AS sku,
    fromUnixTimestamp64Milli(min(since), 'UTC') AS charge_period_start,
    sumOrNullIf(toInt64(whole + (place <= missing)), is_measured) AS energy_millijoules,
    sum(ranked.measured_unit_ms) AS measured_unit_ms,
    sumOrNullIf(byte_ms, ranked.memory_measured_unit_ms > 0) AS memory_byte_ms,
    sum(ranked.memory_measured_unit_ms) AS memory_measured_unit_ms
FROM ranked
INNER JOIN {states:Identifier} AS states ON ranked.state_id = states.state_id
LEFT JOIN {settled:Identifier} AS claims ON ranked.claim = claims.claim
LEFT JOIN {prices:Identifier} AS prices ON ranked.price_id = prices.price
GROUP BY
    hour, cluster, node, device_id, model, pool, device_units, tenant, project, queue, workload_id, allocation_id,
    preemptible, sku, arrayCount(x -> x <= since, {midnights:Array(Int64)})
