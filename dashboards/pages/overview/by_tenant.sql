-- One row: what a tenant ('' has no name) held in the period, or the platform's own time (not is_held), which is nobody's
-- charge; by_project = 1: what a project held.
-- Units: GPU-hours; <kind>_cost: GPU-hours x list price, for charts; unpriced, <kind>_unpriced: GPU-hours without a price;
--        list_cost and billed_cost: exact.
-- Parameters: by_project UInt8; those of ({days})
SELECT
    if({by_project:UInt8} = 1, project, tenant) AS name,
    is_held,
    sum(used) AS used,
    sum(idle) AS idle,
    sum(unmetered) AS unmetered,
    sum(unallocated) AS unallocated,
    sum(unavailable) AS unavailable,
    sum(l.used * price) AS used_cost,
    sum(l.idle * price) AS idle_cost,
    sum(l.unmetered * price) AS unmetered_cost,
    sum(l.unallocated * price) AS unallocated_cost,
    sum(l.unavailable * price) AS unavailable_cost,
    sumIf(l.allocated + l.unallocated + l.unavailable, price IS NULL) AS unpriced,
    sumIf(l.used, price IS NULL) AS used_unpriced,
    sumIf(l.idle, price IS NULL) AS idle_unpriced,
    sumIf(l.unmetered, price IS NULL) AS unmetered_unpriced,
    sumIf(l.unallocated, price IS NULL) AS unallocated_unpriced,
    sumIf(l.unavailable, price IS NULL) AS unavailable_unpriced,
    sumIf(l.list_cost, is_held) AS list_cost,
    sumIf(l.billed_cost, is_held) AS billed_cost
FROM ({days}) AS l
GROUP BY name, is_held
ORDER BY name, is_held
