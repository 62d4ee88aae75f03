-- One row: what ({days}) reads in place of the ledger: a sum of a whole day of a period that still holds, or an entry of
-- another hour. `hour` of a sum is the start of its day. Columns: those that ({ledger}) needs.
-- Parameters: start, end DateTime64(3) (UTC, [start, end)); zone String (IANA name); summed_days, other_hours Array(UInt32),
--             in Unix seconds, and versions Array(UInt64) (held.sql)
SELECT
    day AS hour, cluster, node, device_id, model, pool, device_units, tenant, project, queue, workload_id, is_held,
    partition_profile, units, charge_period_start, charge_period_end, sku, billing_currency, list_unit_price,
    contracted_unit_price, used_unit_ms, idle_unit_ms, unmetered_unit_ms, unallocated_unit_ms, unavailable_unit_ms
FROM ledger_days
WHERE zone = {zone:String} AND day IN {summed_days:Array(UInt32)} AND version IN {versions:Array(UInt64)}
UNION ALL
SELECT
    hour, cluster, node, device_id, model, pool, device_units, tenant, project, queue, workload_id,
    allocation_id != '' AS is_held, partition_profile, units, charge_period_start, charge_period_end, sku,
    billing_currency, list_unit_price, contracted_unit_price, used_unit_ms, idle_unit_ms, unmetered_unit_ms,
    unallocated_unit_ms, unavailable_unit_ms
FROM ledger
WHERE charge_period_start >= {start:DateTime64(3,'UTC')} AND charge_period_start < {end:DateTime64(3,'UTC')}
    AND hour IN {other_hours:Array(UInt32)}
    AND toDateTime(dateTrunc('day', charge_period_start, {zone:String}), 'UTC') NOT IN {summed_days:Array(UInt32)}
