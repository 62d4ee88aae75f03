SELECT if(partition_profile = '', 'whole', partition_profile) AS profile, sum(allocated_gpu_hours) AS gpu_hours
FROM v_usage_hourly
GROUP BY profile
ORDER BY gpu_hours DESC
