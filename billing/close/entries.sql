-- One row: a ledger entry (see ledger_entries): an hour, device and holder at one share, price and tenant, or the
-- platform's own time. Used, idle and unmetered add up to what was held; with unallocated and unavailable, to capacity.
-- Params:  midnights = local midnights (ms) inside an hour, for billing zones that are not whole hours from UTC.
CREATE TABLE {entries:Identifier} ENGINE = Memory AS
WITH
    parts AS
    (
        SELECT
            hour, start_ms, end_ms, state_id, claim, toUInt32(units) AS units,
            tenant, partition_profile,
            toInt64(units) * (end_ms - start_ms) AS held_ms,
            toInt64(units) * covered_ms AS covered_unit_ms,
            toInt64(intDiv(toInt128(used_of_partition) * units, greatest(1, partition_cap) * 1000)
                + intDiv(toInt128(used_of_device) * units, greatest(1, device_cap) * 1000)) AS used_micro,
            toInt64(0) AS unallocated, toInt64(0) AS unavailable
        FROM {holdings:Identifier} AS holdings
        LEFT JOIN {merged:Identifier} AS merged USING (claim, start_ms)
        UNION ALL
        SELECT
            hour, start_ms, end_ms, state_id, 0 AS claim, toUInt32(0) AS units,
            '' AS tenant, '' AS partition_profile,
            toInt64(0) AS held_ms, toInt64(0) AS covered_unit_ms, toInt64(0) AS used_micro,
            if(available, (toInt64(device_units) - toInt64(held_units)) * (end_ms - start_ms), 0) AS unallocated,
            if(available, 0, toInt64(device_units) * (end_ms - start_ms)) AS unavailable
        FROM {segments:Identifier}
        WHERE NOT available OR held_units != device_units
    ),
    priced AS
    (
        SELECT
            parts.hour AS hour, parts.start_ms AS start_ms, parts.end_ms AS end_ms, parts.claim AS claim,
            parts.units AS units, parts.tenant AS tenant, parts.partition_profile AS partition_profile,
            held_ms, covered_unit_ms, used_micro, unallocated, unavailable,
            states.cluster AS cluster, states.node AS node, states.device_id AS device_id,
            states.model AS model, states.pool AS pool, states.units AS device_units,
            if(parts.start_ms < prices.to_ms, prices.sku, '') AS sku,
            if(parts.start_ms < prices.to_ms, prices.list_unit_price, NULL) AS list_unit_price,
            if(parts.start_ms < prices.to_ms, prices.contracted_unit_price, NULL) AS contracted_unit_price,
            if(parts.start_ms < prices.to_ms, prices.currency, '') AS billing_currency
        FROM parts
        INNER JOIN {states:Identifier} AS states ON parts.state_id = states.state_id
        ASOF LEFT JOIN {prices:Identifier} AS prices
            ON states.model = prices.model AND states.pool = prices.pool
            AND parts.partition_profile = prices.partition_profile AND parts.tenant = prices.tenant
            AND parts.start_ms >= prices.from_ms
    )
SELECT
    toDateTime(toUInt32(hour * 3600), 'UTC') AS hour,
    cluster,
    node,
    device_id,
    model,
    pool,
    device_units,
    priced.tenant AS tenant,
    claims.project AS project,
    claims.queue AS queue,
    claims.workload_id AS workload_id,
    claims.allocation_id AS allocation_id,
    claims.partition_id AS partition_id,
    priced.partition_profile AS partition_profile,
    priced.units AS units,
    claims.preemptible AS preemptible,
    claims.estimated AS estimated,
    fromUnixTimestamp64Milli(min(priced.start_ms), 'UTC') AS charge_period_start,
    fromUnixTimestamp64Milli(max(priced.end_ms), 'UTC') AS charge_period_end,
    sku,
    list_unit_price,
    contracted_unit_price,
    billing_currency,
    CAST(sum(used_micro) AS Decimal(38, 6)) / 1000000 AS used,
    CAST(used AS Decimal(18, 6)) AS used_unit_ms,
    CAST(CAST(sum(covered_unit_ms) AS Decimal(38, 6)) - used AS Decimal(18, 6)) AS idle_unit_ms,
    sum(held_ms) - sum(covered_unit_ms) AS unmetered_unit_ms,
    sum(unallocated) AS unallocated_unit_ms,
    sum(unavailable) AS unavailable_unit_ms
FROM priced
LEFT JOIN {settled:Identifier} AS claims ON priced.claim = claims.claim
GROUP BY
    hour, cluster, node, device_id, model, pool, device_units, tenant, project, queue, workload_id, allocation_id,
    partition_id, partition_profile, units, preemptible, estimated, sku, list_unit_price, contracted_unit_price,
    billing_currency, priced.claim, arrayCount(x -> x <= priced.start_ms, {midnights:Array(Int64)})
