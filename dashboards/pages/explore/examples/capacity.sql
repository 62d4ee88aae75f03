SELECT
    toDate(hour, 'Europe/Berlin') AS day, pool, sum(capacity_gpu_hours) AS capacity, sum(used_gpu_hours) AS used,
    sum(idle_gpu_hours) AS idle, sum(unmetered_gpu_hours) AS unmetered, sum(unallocated_gpu_hours) AS unallocated,
    sum(unavailable_gpu_hours) AS unavailable
FROM v_capacity_hourly
GROUP BY day, pool
ORDER BY day, pool
