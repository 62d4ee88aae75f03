-- One row: a figure that a scheduler reported of a tenant in a pool.   $$where: a condition.
SELECT DISTINCT cluster, tenant, splitByChar('{', metric)[1] AS name, extract(metric, 'pool="([^"]*)"') AS pool, value
FROM service_levels
WHERE service = 'scheduler' AND workload_id = '' AND tenant != ''
    AND (startsWith(metric, 'tenant_') OR startsWith(metric, 'quota_redemption_ratio')) AND $where
ORDER BY cluster, tenant, pool, name
