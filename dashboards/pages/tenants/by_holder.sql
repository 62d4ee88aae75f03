-- One row: a tenant, project or workload that held something in the period, the dearest first.
-- Units: GPU-hours; <kind>_cost: at list price, for charts; list_cost, billed_cost: exact, NULL: no price is known.
-- steps: (day or hour of the billing zone, list cost, used, idle, unmetered) of those in which it held something, in order.
-- in_all: how many there are; the dearest {most} are shown.
-- Parameters: level String ('tenant' | 'project' | 'workload'); grain String ('day' | 'hour'); most UInt32;
--             those of ({days})
WITH by_step AS
(
    SELECT
        multiIf({level:String} = 'tenant', tenant, {level:String} = 'project', project, workload_id) AS name,
        if({grain:String} = 'hour', hour, day) AS step,
        sum(l.used) AS used,
        sum(l.idle) AS idle,
        sum(l.unmetered) AS unmetered,
        sum(l.used * price) AS used_cost,
        sum(l.idle * price) AS idle_cost,
        sum(l.unmetered * price) AS unmetered_cost,
        sumIf(l.allocated, price IS NULL) AS unpriced,
        sum(l.list_cost) AS list_cost,
        sum(l.billed_cost) AS billed_cost
    FROM ({days}) AS l
    WHERE is_held
    GROUP BY name, step
)
SELECT
    name,
    sum(s.used) AS used,
    sum(s.idle) AS idle,
    sum(s.unmetered) AS unmetered,
    0. AS unallocated,
    0. AS unavailable,
    sum(s.used_cost) AS used_cost,
    sum(s.idle_cost) AS idle_cost,
    sum(s.unmetered_cost) AS unmetered_cost,
    0. AS unallocated_cost,
    0. AS unavailable_cost,
    sum(s.unpriced) AS unpriced,
    sum(s.list_cost) AS list_cost,
    sum(s.billed_cost) AS billed_cost,
    arraySort(groupArray((step, toFloat64(ifNull(s.list_cost, 0)), s.used, s.idle, s.unmetered))) AS steps,
    count() OVER () AS in_all
FROM by_step AS s
GROUP BY name
ORDER BY list_cost DESC NULLS LAST, used + idle + unmetered DESC, name
LIMIT {most:UInt32}
