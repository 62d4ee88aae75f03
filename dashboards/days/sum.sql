-- Sums the ledger's entries that begin in some days of a zone. The versions of their sums count on from `version`.
-- Parameters: zone String; version UInt64; days Array(DateTime64(3,'UTC')), not empty
INSERT INTO ledger_days (
    zone, day, version, cluster, node, device_id, model, pool, device_units, tenant, project, queue, workload_id, is_held,
    partition_profile, units, sku, list_unit_price, contracted_unit_price, billing_currency,
    charge_period_start, charge_period_end,
    used_unit_ms, idle_unit_ms, unmetered_unit_ms, unallocated_unit_ms, unavailable_unit_ms)
SELECT
    {zone:String},
    toDateTime(dateTrunc('day', l.charge_period_start, {zone:String}), 'UTC') AS begun,
    {version:UInt64} + indexOf({days:Array(DateTime64(3,'UTC'))}, begun) AS version,
    cluster, node, device_id, model, pool, device_units, tenant, project, queue, workload_id, allocation_id != '' AS is_held,
    partition_profile, units, sku, list_unit_price, contracted_unit_price, billing_currency,
    min(l.charge_period_start), max(l.charge_period_end),
    sum(l.used_unit_ms), sum(l.idle_unit_ms), sum(l.unmetered_unit_ms), sum(l.unallocated_unit_ms),
    sum(l.unavailable_unit_ms)
FROM ledger AS l
WHERE hour > arrayMin({days:Array(DateTime64(3,'UTC'))}) - INTERVAL 1 HOUR
    AND hour < arrayMax({days:Array(DateTime64(3,'UTC'))}) + INTERVAL 25 HOUR
    AND version > {version:UInt64}
GROUP BY
    begun, cluster, node, device_id, model, pool, device_units, tenant, project, queue, workload_id, is_held,
    partition_profile, units, sku, list_unit_price, contracted_unit_price, billing_currency
