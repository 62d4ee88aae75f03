SELECT tenant, workload_id, sum(idle_gpu_hours) AS idle, sum(allocated_gpu_hours) AS held
FROM v_usage_hourly
GROUP BY tenant, workload_id
ORDER BY idle DESC
LIMIT 20
