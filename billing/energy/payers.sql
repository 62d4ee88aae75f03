-- One row: what components can tell apart of those to whom energy was attributed, by month of the billing zone.
-- Params:  start, end = [start, end); timezone.
SELECT DISTINCT tenant, project, queue, sku, preemptible, formatDateTime(charge_period_start, '%Y-%m', {timezone:String}) AS month
FROM energy
WHERE charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
