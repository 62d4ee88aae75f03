SELECT model, tenant, sum(consumed_quantity) AS gpu_hours, sum(billed_cost) AS cost
FROM v_charges
GROUP BY model, tenant
ORDER BY model, gpu_hours DESC
