-- One row: what holders of one value of each dimension asked for (empty where it was not asked for, or where nobody
-- held: held = 0) have in the closed hours of a period, at one price, on devices with one number of units.
-- by_isolation: the isolation level as warehouse/isolation.py (level_of_share) explains it.
-- Units:   *_micro_ms: millionths of a unit-millisecond; prices per GPU-hour.
-- Params:  start, end = [start, end); by = names of dimensions; timezone = where days are cut.
SELECT
    allocation_id != '' AS held,
    if(held, if(has({by:Array(String)}, 'tenant'), tenant, ''), '') AS by_tenant,
    if(held, if(has({by:Array(String)}, 'project'), project, ''), '') AS by_project,
    if(held, if(has({by:Array(String)}, 'queue'), queue, ''), '') AS by_queue,
    if(held, if(has({by:Array(String)}, 'workload'), workload_id, ''), '') AS by_workload,
    if(held, if(has({by:Array(String)}, 'cluster'), cluster, ''), '') AS by_cluster,
    if(held, if(has({by:Array(String)}, 'node'), node, ''), '') AS by_node,
    if(held, if(has({by:Array(String)}, 'device'), device_id, ''), '') AS by_device,
    if(held, if(has({by:Array(String)}, 'model'), model, ''), '') AS by_model,
    if(held, if(has({by:Array(String)}, 'pool'), pool, ''), '') AS by_pool,
    if(held, if(has({by:Array(String)}, 'day'), toString(toDate(charge_period_start, {timezone:String})), ''), '') AS by_day,
    if(held, if(has({by:Array(String)}, 'hour'), formatDateTime(hour, '%Y-%m-%dT%H:00:00.000Z'), ''), '') AS by_hour,
    if(held, if(has({by:Array(String)}, 'isolation'), multiIf(
        match(partition_id, '::[0-9]+$') OR match(device_id, '::[0-9]+$'), 'shared',
        match(partition_profile, '(?i)(^|[^a-z0-9])[0-9]+g\\.[0-9]+gb') OR startsWith(partition_id, 'MIG-'), 'partitioned',
        partition_profile != '' OR partition_id != '' OR startsWith(estimated, 'device unknown'), 'unknown',
        units >= device_units, 'exclusive',
        'shared'), ''), '') AS by_isolation,
    device_units,
    list_unit_price,
    contracted_unit_price,
    billing_currency,
    toInt128(sum(used_unit_ms) * 1000000) AS used_micro_ms,
    toInt128(sum(idle_unit_ms) * 1000000) AS idle_micro_ms,
    toInt128(sum(unmetered_unit_ms)) * 1000000 AS unmetered_micro_ms,
    toInt128(sum(unallocated_unit_ms)) * 1000000 AS unallocated_micro_ms,
    toInt128(sum(unavailable_unit_ms)) * 1000000 AS unavailable_micro_ms
FROM ledger
WHERE charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
GROUP BY ALL
ORDER BY
    by_tenant, by_project, by_queue, by_workload, by_cluster, by_node, by_device, by_model, by_pool, by_day, by_hour, by_isolation
