-- One row: what a tenant ('' has no name) held on a day of the billing zone, oldest first.
-- Units: billed_cost: exact, NULL: no price is known; unpriced: GPU-hours that it does not contain.
-- Parameters: those of ({days})
SELECT
    day AS at,
    tenant,
    sum(l.billed_cost) AS billed_cost,
    sumIf(l.allocated, l.billed_cost IS NULL) AS unpriced,
    arrayFilter(one -> one != '', groupUniqArray(billing_currency)) AS currencies
FROM ({days}) AS l
WHERE is_held
GROUP BY at, tenant
ORDER BY at, tenant
