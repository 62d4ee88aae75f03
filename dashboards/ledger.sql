-- What pages select from as ({ledger}): the ledger of the page's period and filters (dashboards.filters).
-- One row: for one hour, device and holder at one share, price and tenant (is_held), or the platform's own time.
-- hour: of the clock in UTC; day: of the billing zone, in which it begins.
-- Units: used ... unavailable GPU-hours, floating point, for charts; allocated their held part; list_cost, billed_cost
--        the exact price of what is held (NULL: no price), to 15 digits, summed and rounded once where it is shown.
-- Parameters: those of ({source}), which is dashboards/hours.sql or dashboards/days/other_hours.sql; zone String (IANA name);
--             tenants, projects, queues, pools, models, clusters Array(String), empty: all. One of tenants, projects, queues leaves the platform's own time out.
SELECT
    hour, toDateTime(dateTrunc('day', charge_period_start, {zone:String}), 'UTC') AS day,
    cluster, node, device_id, model, pool, device_units, tenant, project, queue, workload_id, partition_id, partition_profile,
    units, estimated, charge_period_start, charge_period_end, sku, billing_currency, is_held,
    toFloat64(used_unit_ms) / (device_units * 3600000) AS used,
    toFloat64(idle_unit_ms) / (device_units * 3600000) AS idle,
    unmetered_unit_ms / (device_units * 3600000) AS unmetered,
    unallocated_unit_ms / (device_units * 3600000) AS unallocated,
    unavailable_unit_ms / (device_units * 3600000) AS unavailable,
    used + idle + unmetered AS allocated,
    toFloat64(list_unit_price) AS price,
    toDecimal128(used_unit_ms + idle_unit_ms + unmetered_unit_ms, 6) * list_unit_price / (device_units * 3600000)
        AS list_cost,
    toDecimal128(used_unit_ms + idle_unit_ms + unmetered_unit_ms, 6) * contracted_unit_price / (device_units * 3600000)
        AS billed_cost
FROM ({source})
WHERE (empty({tenants:Array(String)}) OR (is_held AND has({tenants:Array(String)}, tenant)))
    AND (empty({projects:Array(String)}) OR (is_held AND has({projects:Array(String)}, project)))
    AND (empty({queues:Array(String)}) OR (is_held AND has({queues:Array(String)}, queue)))
    AND (empty({pools:Array(String)}) OR has({pools:Array(String)}, pool))
    AND (empty({models:Array(String)}) OR has({models:Array(String)}, model))
    AND (empty({clusters:Array(String)}) OR has({clusters:Array(String)}, cluster))
