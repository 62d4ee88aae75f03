-- One row: what a tenant was billed for a day of a zone.   $$zone: its name, a literal; $$where: a condition.
SELECT toDate(charge_period_start, $zone) AS day, tenant, sum(billed_cost) AS billed_cost
FROM v_charges
WHERE $where
GROUP BY day, tenant
ORDER BY day, tenant
