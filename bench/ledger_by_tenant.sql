-- One row: a tenant's GPU-hours in the ledger (every device of the bench fleet has one unit).
SELECT
    tenant,
    toFloat64(sum(used_unit_ms)) / 3600000 AS used,
    toFloat64(sum(used_unit_ms) + sum(idle_unit_ms)) / 3600000 AS covered,
    sum(unmetered_unit_ms) / 3600000 AS unmetered
FROM ledger
WHERE allocation_id != ''
GROUP BY tenant
ORDER BY tenant
