SELECT
    toStartOfMonth(charge_period_start, 'Europe/Berlin') AS month, tenant, sum(consumed_quantity) AS gpu_hours,
    sum(billed_cost) AS cost, sumIf(consumed_quantity, billed_cost IS NULL) AS unpriced_gpu_hours, any(billing_currency) AS currency
FROM v_charges
GROUP BY month, tenant
ORDER BY month, cost DESC
