-- One row: a workload that held something in the period, the dearest first.
-- Units: GPU-hours; idle_cost: at list price, for charts; list_cost: exact, NULL: no price is known. in_all: how many there are.
-- Parameters: find String, a part of the name in any case, empty: all; most UInt32; those of ({days})
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
    sum(l.list_cost) AS list_cost,
    count() OVER () AS in_all
FROM ({days}) AS l
WHERE is_held AND ({find:String} = '' OR positionCaseInsensitiveUTF8(workload_id, {find:String}) > 0)
GROUP BY workload_id
ORDER BY list_cost DESC NULLS LAST, used + idle + unmetered DESC, workload_id
LIMIT {most:UInt32}
