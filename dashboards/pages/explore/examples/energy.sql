SELECT
    tenant, sum(kwh) AS kwh,
    toFloat64(sum(measured_gpu_hours)) / any(h.gpu_hours) AS measured_part
FROM v_energy AS e
INNER JOIN (SELECT tenant, toFloat64(sum(allocated_gpu_hours)) AS gpu_hours FROM v_usage_hourly GROUP BY tenant) AS h
    ON e.tenant = h.tenant
WHERE held
GROUP BY tenant
ORDER BY kwh DESC
