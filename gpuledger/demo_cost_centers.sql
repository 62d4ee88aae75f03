-- One row: what a cost center was billed for a month.
SELECT
    toStartOfMonth(charge_period_start, 'Europe/Berlin') AS month, cost_center, sum(billed_cost) AS cost,
    any(billing_currency) AS currency
FROM v_charges
GROUP BY month, cost_center
ORDER BY month, cost DESC
