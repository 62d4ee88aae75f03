-- One row: what a scheduler reported last of a tenant in a pool ('': its only one), within 15 minutes before an instant. Units: GPUs;
-- NULL: not reported.   guaranteed; held; asked: by its waiting jobs.   redemption: of what was guaranteed and asked for, what was
-- held, 0-1, since its scheduler began.
-- Parameters: at; tenants, pools, clusters Array(String), empty: all
SELECT
    cluster, tenant, pool, max(ts) AS reported_at,
    anyIf(value, name = 'tenant_guaranteed_gpus') AS guaranteed,
    anyIf(value, name = 'tenant_held_gpus') AS held,
    anyIf(value, name = 'tenant_asked_gpus') AS asked,
    anyIf(value, name = 'quota_redemption_ratio') AS redemption
FROM
(
    SELECT
        cluster, toString(tenant) AS tenant, ts, value,
        splitByChar('{', metric)[1] AS name,
        extract(metric, 'pool="([^"]*)"') AS pool,
        max(ts) OVER (PARTITION BY cluster) AS newest
    FROM service_levels
    WHERE service = 'scheduler' AND workload_id = '' AND tenant != '' AND value IS NOT NULL
        AND (startsWith(metric, 'tenant_') OR startsWith(metric, 'quota_redemption_ratio'))
        AND ts > {at:DateTime64(3, 'UTC')} - INTERVAL 15 MINUTE AND ts <= {at:DateTime64(3, 'UTC')}
)
WHERE ts = newest
    AND (empty({tenants:Array(String)}) OR has({tenants:Array(String)}, tenant))
    AND (empty({pools:Array(String)}) OR has({pools:Array(String)}, pool))
    AND (empty({clusters:Array(String)}) OR has({clusters:Array(String)}, cluster))
GROUP BY cluster, tenant, pool
ORDER BY cluster, tenant, pool
