-- What ({days}) reads where sums of whole days still hold: the filters of dashboards/ledger.sql, and its columns but partition_id and
-- estimated.
-- One row: a sum of a day (ledger_days); `hour` is the start of its day.
-- Parameters: zone String (IANA name); summed_days Array(UInt32), in Unix seconds, and versions Array(UInt64) (Sums.params);
--             tenants, projects, queues, pools, models, clusters Array(String), empty: all
SELECT
    day AS hour, day, cluster, node, device_id, model, pool, device_units, tenant, project, queue, workload_id,
    partition_profile, units, charge_period_start, charge_period_end, sku, billing_currency, is_held,
    used, idle, unmetered, unallocated, unavailable, used + idle + unmetered AS allocated, price, list_cost, billed_cost
FROM ledger_days
WHERE zone = {zone:String} AND day IN {summed_days:Array(UInt32)} AND version IN {versions:Array(UInt64)}
    AND (empty({tenants:Array(String)}) OR (is_held AND has({tenants:Array(String)}, tenant)))
    AND (empty({projects:Array(String)}) OR (is_held AND has({projects:Array(String)}, project)))
    AND (empty({queues:Array(String)}) OR (is_held AND has({queues:Array(String)}, queue)))
    AND (empty({pools:Array(String)}) OR has({pools:Array(String)}, pool))
    AND (empty({models:Array(String)}) OR has({models:Array(String)}, model))
    AND (empty({clusters:Array(String)}) OR has({clusters:Array(String)}, cluster))
