-- One row: an energy entry (see energy_entries).
-- Shape:   a segment's energy is divided. Its idle part (idle power x measured time, at most all) goes by share held,
--          what is free or unavailable to the platform. The rest goes by share used; where nobody used anything or
--          somebody's use is not known, by share held. The use of a segment is that of its covered time.
-- Units:   nanojoules by segment, cut down; then whole millijoules by device and hour: what is missing to the device's
--          energy goes, one each, to those who lost most. So the rows of a device and hour sum to its energy. Who has the
--          device whole for an hour has all of it.
--          The platform has no sku.
-- Params:  midnights = local midnights (ms) inside an hour, for billing zones that are not whole hours from UTC.
CREATE TABLE {energy:Identifier} ENGINE = Memory AS
WITH
    together AS
    (
        SELECT state_id, start_ms, if(min(use_known), sum(micro_units), 0) AS micro_units
        FROM {shares:Identifier}
        WHERE NOT is_whole
        GROUP BY state_id, start_ms
    ),
    divided AS
    (
        SELECT
            shares.hour AS hour, shares.start_ms AS start_ms, shares.state_id AS state_id, powers.device AS device, claim, subject,
            powers.measured_ms AS measured_ms,
            powers.measured_ms * units AS measured_unit_ms,
            memory_ms * units AS memory_measured_unit_ms,
            byte_ms,
            if(is_whole, 0, together.micro_units) AS of_all,
            of_all > 0 AS by_use,
            if(measured_ms = 0, toInt64(0), toInt64(
                intDiv(toInt128(if(by_use, powers.idle_energy, powers.energy)) * units, greatest(1, powers.device_units))
                + if(by_use, intDiv(toInt128(powers.energy - powers.idle_energy) * shares.micro_units, of_all), 0))) AS nanojoules
        FROM {shares:Identifier} AS shares
        LEFT JOIN {powers:Identifier} AS powers ON shares.state_id = powers.state_id AND shares.start_ms = powers.start_ms
        LEFT JOIN together ON shares.state_id = together.state_id AND shares.start_ms = together.start_ms
        WHERE measured_ms > 0 OR memory_ms > 0
    ),
    summed AS
    (
        SELECT
            hour, claim, state_id,
            if(divided.start_ms < prices.to_ms, price, 0) AS price_id,
            min(divided.start_ms) AS since,
            max(device) AS device,
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
    portioned AS
    (
        SELECT
            summed.hour AS hour,
            measured_unit_ms > 0 AS is_measured,
            any(devices_energy.millijoules) - sum(intDiv(nanojoules, 1000000)) AS missing,
            arraySort(groupArray((-(nanojoules % 1000000), claim, since, price_id, state_id, intDiv(nanojoules, 1000000),
                measured_unit_ms, byte_ms, memory_measured_unit_ms))) AS holders
        FROM summed
        LEFT JOIN devices_energy ON summed.device = devices_energy.device AND summed.hour = devices_energy.hour
        GROUP BY if(is_measured, summed.device, state_id), hour, is_measured
    ),
    parts AS
    (
        SELECT hour, holder.2 AS claim, holder.3 AS since, holder.4 AS price_id, holder.5 AS state_id,
            if(is_measured, toInt64(holder.6 + (place <= missing)), NULL) AS millijoules,
            holder.7 AS measured_unit_ms, holder.8 AS byte_ms, holder.9 AS memory_measured_unit_ms
        FROM portioned
        ARRAY JOIN holders AS holder, arrayEnumerate(holders) AS place
    )
SELECT
    toDateTime(toUInt32(parts.hour * 3600), 'UTC') AS hour,
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
    fromUnixTimestamp64Milli(since, 'UTC') AS charge_period_start,
    millijoules AS energy_millijoules,
    measured_unit_ms,
    if(memory_measured_unit_ms > 0, byte_ms, NULL) AS memory_byte_ms,
    memory_measured_unit_ms
FROM parts
INNER JOIN {states:Identifier} AS states ON parts.state_id = states.state_id
LEFT JOIN
(
    SELECT claim, tenant, project, queue, workload_id, allocation_id, preemptible
    FROM {settled:Identifier}
    WHERE start_ms < {to_ms:Int64} AND end_ms > {from_ms:Int64}
) AS claims ON parts.claim = claims.claim
LEFT JOIN {prices:Identifier} AS prices ON parts.price_id = prices.price
UNION ALL
SELECT
    toDateTime(toUInt32(whole.hour * 3600), 'UTC') AS hour,
    cluster, node, device_id, model, pool, device_units, tenant, project, queue, workload_id, allocation_id, preemptible, sku,
    toDateTime64(hour, 3, 'UTC') AS charge_period_start,
    if(power_ms > 0, intDiv(nanojoules + 500000, 1000000), NULL) AS energy_millijoules,
    power_ms * units AS measured_unit_ms,
    if(memory_ms > 0, byte_ms, NULL) AS memory_byte_ms,
    memory_ms * units AS memory_measured_unit_ms
FROM {whole:Identifier} AS whole
WHERE power_ms > 0 OR memory_ms > 0
