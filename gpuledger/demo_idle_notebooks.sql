-- One row: a notebook, and how many GPU-hours it was idle of those that it held.
SELECT workload_id, sum(idle_gpu_hours) AS idle, sum(allocated_gpu_hours) AS held
FROM v_usage_hourly
WHERE tenant = 'vision' AND queue = 'interactive'
GROUP BY workload_id
ORDER BY idle DESC
LIMIT 20
