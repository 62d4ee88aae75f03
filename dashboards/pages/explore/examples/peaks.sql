SELECT tenant, max(gpus) AS peak_gpus, argMax(hour, gpus) AS at
FROM (SELECT tenant, hour, sum(allocated_gpu_hours) AS gpus FROM v_usage_hourly GROUP BY tenant, hour)
GROUP BY tenant
ORDER BY peak_gpus DESC
