-- One row: a value that a scheduler reported last within the period (scheduler/exposition.py says what each is).
-- cause, pool, shape: its labels, empty where it has none.
-- Parameters: start, end DateTime64(3) (UTC); clusters Array(String), empty: all
SELECT
    cluster, ts,
    splitByChar('{', metric)[1] AS name,
    substring(service, 11) AS queue,
    tenant,
    extract(metric, 'cause="([^"]*)"') AS cause,
    extract(metric, 'pool="([^"]*)"') AS pool,
    extract(metric, 'shape="([^"]*)"') AS shape,
    any(l.value) AS value
FROM service_levels AS l
WHERE (service = 'scheduler' OR startsWith(service, 'scheduler/')) AND workload_id = '' AND l.value IS NOT NULL
    AND (cluster, ts) IN
    (
        SELECT cluster, max(ts) FROM service_levels
        WHERE (service = 'scheduler' OR startsWith(service, 'scheduler/')) AND workload_id = ''
            AND ts >= {start:DateTime64(3,'UTC')} AND ts < {end:DateTime64(3,'UTC')}
            AND (empty({clusters:Array(String)}) OR has({clusters:Array(String)}, cluster))
        GROUP BY cluster
    )
    AND (name IN ('pending_jobs', 'pending_units', 'largest_gang_replicas') OR startsWith(name, 'tenant_')
        OR name IN ('quota_redemption_ratio', 'breach_gpu_seconds_total'))
GROUP BY ALL
ORDER BY name, queue, tenant, pool, value DESC
