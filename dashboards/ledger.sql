-- What pages select from as ({ledger}): the ledger of the page's period and filters (dashboards.filters).
-- One row: for one hour, device and holder at one share, price and tenant (is_held), or the platform's own time.
-- Units: used ... unavailable GPU-hours, floating point, for charts; allocated their held part; list_cost, billed_cost
--        the exact price of what is held (NULL: no price), to 15 digits, summed and rounded once where it is shown.
-- Parameters: start, end DateTime64(3) (UTC, [start, end)); tenants, projects, queues, pools, models, clusters
--             Array(String), empty: all. One of tenants, projects, queues leaves the platform's own time out.
SELECT
    hour, cluster, node, device_id, model, pool, device_units, tenant, project, queue, workload_id, allocation_id,
    partition_id, partition_profile, units, charge_period_start, charge_period_end, sku, billing_currency,
    allocation_id != '' AS is_held,
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
FROM ledger
WHERE hour > {start:DateTime64(3,'UTC')} - INTERVAL 1 HOUR AND hour < {end:DateTime64(3,'UTC')}
    AND charge_period_start >= {start:DateTime64(3,'UTC')} AND charge_period_start < {end:DateTime64(3,'UTC')}
    AND (empty({tenants:Array(String)}) OR (allocation_id != '' AND has({tenants:Array(String)}, tenant)))
    AND (empty({projects:Array(String)}) OR (allocation_id != '' AND has({projects:Array(String)}, project)))
    AND (empty({queues:Array(String)}) OR (allocation_id != '' AND has({queues:Array(String)}, queue)))
    AND (empty({pools:Array(String)}) OR has({pools:Array(String)}, pool))
    AND (empty({models:Array(String)}) OR has({models:Array(String)}, model))
    AND (empty({clusters:Array(String)}) OR has({clusters:Array(String)}, cluster))
