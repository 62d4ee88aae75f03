-- One row: a ledger entry (see ledger_entries): an hour, device and holder at one share, price and tenant, or the
-- platform's own time. Used, idle and unmetered add up to what was held; with unallocated and unavailable, to capacity.
-- Params:  midnights = local midnights (ms) inside an hour, for billing zones that are not whole hours from UTC.
-- Reads:   summed by integers first, described in words after. A Decimal(18, 6) is an integer of millionths, so that
--          reinterpret makes one of the other at no cost.
CREATE TABLE {entries:Identifier} ENGINE = Memory AS
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
    parts AS
    (
        SELECT
            hour, start_ms, end_ms, state_id, claim, toInt64(holdings.units) AS units, subject,
            units * (end_ms - start_ms) AS held_ms,
            units * covered_ms AS covered_unit_ms,
            if(cap_one_way = units, intDiv(used_one_way, 1000), toInt64(intDiv(toInt128(used_one_way) * units, greatest(1, cap_one_way) * 1000)))
                + toInt64(intDiv(toInt128(used_of_partition) * units, greatest(1, partition_cap) * 1000)
                    + intDiv(toInt128(used_of_device) * units, greatest(1, device_cap) * 1000)) AS used_micro,
            toInt64(0) AS unallocated,
            toInt64(0) AS unavailable
        FROM {holdings:Identifier} AS holdings
        LEFT JOIN used USING (claim, start_ms)
        UNION ALL
        SELECT
            hour, start_ms, end_ms, state_id, toUInt64(0) AS claim, toInt64(0) AS units, states.subject AS subject,
            toInt64(0) AS held_ms, toInt64(0) AS covered_unit_ms, toInt64(0) AS used_micro,
            if(segments.available, (toInt64(device_units) - toInt64(held_units)) * (end_ms - start_ms), 0) AS unallocated,
            if(segments.available, 0, toInt64(device_units) * (end_ms - start_ms)) AS unavailable
        FROM (SELECT * FROM {segments:Identifier} WHERE NOT available OR held_units != device_units) AS segments
        INNER JOIN (SELECT state_id, cityHash64(product, cityHash64('', '', '', toUInt16(0), toUInt8(0))) AS subject FROM {states:Identifier}) AS states
            ON segments.state_id = states.state_id
    ),
    summed AS
    (
        SELECT
            hour, claim, state_id, units,
            if(parts.start_ms < prices.to_ms, price, 0) AS price_id,
            min(parts.start_ms) AS since,
            max(parts.end_ms) AS until,
            sum(used_micro) AS used_micro,
            sum(held_ms) AS held_ms,
            sum(covered_unit_ms) AS covered_unit_ms,
            sum(unallocated) AS unallocated,
            sum(unavailable) AS unavailable
        FROM parts
        ASOF LEFT JOIN {prices:Identifier} AS prices ON parts.subject = prices.subject AND parts.start_ms >= prices.from_ms
        GROUP BY hour, claim, state_id, units, price_id, arrayCount(x -> x <= parts.start_ms, {midnights:Array(Int64)})
    )
SELECT
    toDateTime(toUInt32(hour * 3600), 'UTC') AS hour,
    states.cluster AS cluster,
    states.node AS node,
    states.device_id AS device_id,
    states.model AS model,
    states.pool AS pool,
    states.units AS device_units,
    claims.tenant AS tenant,
    claims.project AS project,
    claims.cost_center AS cost_center,
    claims.reported_tenant AS reported_tenant,
    claims.reported_project AS reported_project,
    claims.unmapped AS unmapped,
    claims.queue AS queue,
    claims.workload_id AS workload_id,
    claims.allocation_id AS allocation_id,
    claims.partition_id AS partition_id,
    claims.partition_profile AS partition_profile,
    toUInt32(summed.units) AS units,
    claims.preemptible AS preemptible,
    claims.priority AS priority,
    claims.estimated AS estimated,
    fromUnixTimestamp64Milli(since, 'UTC') AS charge_period_start,
    fromUnixTimestamp64Milli(until, 'UTC') AS charge_period_end,
    prices.sku AS sku,
    if(price_id = 0, NULL, prices.list_unit_price) AS list_unit_price,
    if(price_id = 0, NULL, prices.contracted_unit_price) AS contracted_unit_price,
    prices.currency AS billing_currency,
    reinterpret(used_micro, 'Decimal(18, 6)') AS used_unit_ms,
    reinterpret(covered_unit_ms * 1000000 - used_micro, 'Decimal(18, 6)') AS idle_unit_ms,
    held_ms - covered_unit_ms AS unmetered_unit_ms,
    unallocated AS unallocated_unit_ms,
    unavailable AS unavailable_unit_ms
FROM summed
INNER JOIN {states:Identifier} AS states ON summed.state_id = states.state_id
LEFT JOIN
(
    SELECT * FROM {settled:Identifier} WHERE start_ms < {to_ms:Int64} AND end_ms > {from_ms:Int64}
) AS claims ON summed.claim = claims.claim
LEFT JOIN {prices:Identifier} AS prices ON summed.price_id = prices.price
UNION ALL
SELECT
    toDateTime(toUInt32(whole.hour * 3600), 'UTC') AS hour,
    cluster, node, device_id, model, pool, device_units,
    tenant, project, cost_center, reported_tenant, reported_project, unmapped, queue, workload_id, allocation_id,
    partition_id, partition_profile, toUInt32(units) AS units, preemptible, priority, estimated,
    toDateTime64(hour, 3, 'UTC') AS charge_period_start,
    addHours(charge_period_start, 1) AS charge_period_end,
    sku, list_unit_price, contracted_unit_price, currency AS billing_currency,
    reinterpret(intDiv(used, 1000), 'Decimal(18, 6)') AS used_unit_ms,
    reinterpret(units * covered_ms * 1000000 - intDiv(used, 1000), 'Decimal(18, 6)') AS idle_unit_ms,
    units * (3600000 - covered_ms) AS unmetered_unit_ms,
    toInt64(0) AS unallocated_unit_ms,
    toInt64(0) AS unavailable_unit_ms
FROM {whole:Identifier} AS whole
