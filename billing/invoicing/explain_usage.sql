-- One row: an entry of the ledger behind an invoice's line; or, with by_hour = 0, all of one allocation's.
-- Units:   GPU-hours, exact to nine digits; cost at the contracted price; instants of the charge.
-- Params:  start, end = [start, end); tenant, project, sku; list_price, contracted_price ('' = unknown);
--          as_of: the close (run) that the invoice saw; what later ones computed again is as it was then.
WITH
    hours AS
    (
        SELECT hour, argMax(run, checked_by) AS now
        FROM closed_hours
        WHERE hour > {start:DateTime64(3, 'UTC')} - INTERVAL 1 HOUR AND hour < {end:DateTime64(3, 'UTC')}
        GROUP BY hour
    ),
    closed_then AS
    (
        SELECT hour, max(ledger_entries.run) AS last_run
        FROM ledger_entries
        WHERE ledger_entries.run <= {as_of:UInt64} AND hour IN (SELECT hour FROM hours WHERE now > {as_of:UInt64})
        GROUP BY hour
    )
SELECT
    if({by_hour:UInt8} = 1, toString(hour), '') AS in_hour,
    cluster,
    allocation_id,
    workload_id,
    if({by_hour:UInt8} = 1, device_id, '') AS device,
    uniqExact(cluster, device_id) AS devices,
    min(charge_period_start) AS from_at,
    max(charge_period_end) AS to_at,
    device_units,
    toInt128(sum(used_unit_ms) * 1000000) AS used_micro_ms,
    toInt128(sum(idle_unit_ms) * 1000000) AS idle_micro_ms,
    toInt128(sum(unmetered_unit_ms)) * 1000000 AS unmetered_micro_ms,
    list_unit_price,
    contracted_unit_price,
    max(estimated) AS estimated
FROM ledger_entries
WHERE (hour, run) IN (SELECT hour, now FROM hours WHERE now <= {as_of:UInt64} UNION ALL SELECT hour, last_run FROM closed_then)
    AND allocation_id != '' AND tenant = {tenant:String} AND project = {project:String} AND sku = {sku:String}
    AND ifNull(toString(list_unit_price), '') = ifNull(toString(toDecimal64OrNull({list_price:String}, 9)), '')
    AND ifNull(toString(contracted_unit_price), '') = ifNull(toString(toDecimal64OrNull({contracted_price:String}, 9)), '')
    AND charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
GROUP BY in_hour, cluster, allocation_id, workload_id, device, device_units, list_unit_price, contracted_unit_price
ORDER BY from_at, cluster, allocation_id, device, device_units
