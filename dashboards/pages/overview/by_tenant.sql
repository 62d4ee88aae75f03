-- One row: a tenant that held something in the period ('' has no name), or the platform (not is_held) with the time
-- that is nobody's charge.
-- Units: GPU-hours; <kind>_cost: GPU-hours x list price, for charts; unpriced: GPU-hours without a price; list_cost and
--        billed_cost: exact.
-- Parameters: of ({ledger})
SELECT
    tenant,
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
    sumIf(l.list_cost, is_held) AS list_cost,
    sumIf(l.billed_cost, is_held) AS billed_cost
FROM ({ledger}) AS l
GROUP BY tenant, is_held
ORDER BY is_held DESC, list_cost DESC, tenant
