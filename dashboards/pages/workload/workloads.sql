-- One row: one of some workloads that held something in the period.
-- Units: GPU-hours; idle_cost: at list price, for charts; list_cost: exact, NULL: no price is known.
-- Parameters: workloads Array(String); those of ({days})
SELECT
    workload_id,
    any(tenant) AS tenant,
    any(project) AS project,
    any(queue) AS queue,
    uniqExact(device_id) AS devices,
    sum(l.used) AS used,
    sum(l.idle) AS idle,
    sum(l.unmetered) AS unmetered,
    sum(l.idle * price) AS idle_cost,
    sum(l.list_cost) AS list_cost
FROM ({days}) AS l
WHERE is_held AND workload_id IN {workloads:Array(String)}
GROUP BY workload_id
ORDER BY workload_id
