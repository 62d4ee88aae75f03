-- One row: the GPU-hours and cost of a period by some columns, the dearest first.   $$by: columns; $$where: a condition.
SELECT $by, sum(consumed_quantity) AS gpu_hours, sum(billed_cost) AS billed_cost
FROM v_charges
WHERE $where
GROUP BY $by
ORDER BY billed_cost DESC
