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
    divided AS
    (
        SELECT
            shares.hour AS hour, shares.start_ms AS start_ms, shares.state_id AS state_id, claim, subject,
            powers.measured_ms AS measured_ms,
            powers.measured_ms * units AS measured_unit_ms,
            memory_ms * units AS memory_measured_unit_ms,
            byte_ms,
            of_all > 0 AS by_use,
            if(measured_ms = 0, toInt64(0), toInt64(
                intDiv(toInt128(if(by_use, powers.idle_energy, powers.energy)) * units, greatest(1, powers.device_units))
                + if(by_use, intDiv(toInt128(powers.energy - powers.idle_energy) * shares.micro_units, of_all), 0))) AS nanojoules
        FROM {shares:Identifier} AS shares
        LEFT JOIN {powers:Identifier} AS powers ON shares.state_id = powers.state_id AND shares.start_ms = powers.start_ms
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
        FROM {powers:Identifier}
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
