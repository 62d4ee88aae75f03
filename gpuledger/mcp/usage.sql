-- One row: the GPU-hours of a period by some columns, the most idle first.   $$by: columns; $$where: a condition.
SELECT
    $by,
    sum(allocated_gpu_hours) AS allocated_gpu_hours,
    sum(used_gpu_hours) AS used_gpu_hours,
    sum(idle_gpu_hours) AS idle_gpu_hours,
    sum(unmetered_gpu_hours) AS unmetered_gpu_hours
FROM v_usage_hourly
WHERE $where
GROUP BY $by
ORDER BY idle_gpu_hours DESC
