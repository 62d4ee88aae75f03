-- One row: an hour in which the workload held something, in order.
-- Units: GPU-hours; list_cost, billed_cost: exact, NULL: no price is known.
-- Parameters: workload String; those of ({ledger})
SELECT
    hour,
    sum(l.used) AS used,
    sum(l.idle) AS idle,
    sum(l.unmetered) AS unmetered,
    sum(l.used * price) AS used_cost,
    sum(l.idle * price) AS idle_cost,
    sum(l.unmetered * price) AS unmetered_cost,
    sumIf(l.allocated, price IS NULL) AS unpriced,
    sum(l.list_cost) AS list_cost,
    sum(l.billed_cost) AS billed_cost
FROM ({ledger}) AS l
WHERE is_held AND workload_id = {workload:String}
GROUP BY hour
ORDER BY hour
