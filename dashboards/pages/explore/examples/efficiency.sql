SELECT
    tenant,
    toFloat64(sum(used_gpu_hours)) / nullIf(toFloat64(sum(used_gpu_hours + idle_gpu_hours)), 0) AS efficiency,
    1 - toFloat64(sum(unmetered_gpu_hours)) / toFloat64(sum(allocated_gpu_hours)) AS coverage
FROM v_usage_hourly
GROUP BY tenant
ORDER BY efficiency
