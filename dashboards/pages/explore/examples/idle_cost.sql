SELECT u.tenant AS tenant, sum(toFloat64(u.idle_gpu_hours) / toFloat64(u.allocated_gpu_hours) * c.cost) AS idle_cost
FROM v_usage_hourly AS u
INNER JOIN
(
    SELECT toStartOfHour(charge_period_start) AS hour, allocation_id, device_id, toFloat64(sum(billed_cost)) AS cost
    FROM v_charges
    GROUP BY hour, allocation_id, device_id
) AS c ON u.hour = toDateTime(c.hour, 'UTC') AND u.allocation_id = c.allocation_id AND u.device_id = c.device_id
WHERE u.allocated_gpu_hours > 0
GROUP BY tenant
ORDER BY idle_cost DESC
