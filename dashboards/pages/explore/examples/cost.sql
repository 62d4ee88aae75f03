SELECT
    toStartOfMonth(charge_period_start, 'Europe/Berlin') AS month, tenant, sum(billed_cost) AS cost, any(billing_currency) AS currency,
    sum(consumed_quantity) AS gpu_hours, sumIf(consumed_quantity, billed_cost IS NULL) AS unpriced_gpu_hours
FROM v_charges
GROUP BY month, tenant
ORDER BY month, cost DESC
