-- One row: a service with recent reports, its tenant, and the minutes with reports (lit, in order). Included in errors.sql
-- and latencies.sql, which define recent.
-- Shape:   tenant: as the service reported it, else as reported of the holder of one of its replicas.
-- Params:  [since, until).
SELECT
    r.cluster AS cluster, r.service AS service,
    max(if(r.tenant != '', r.tenant, h.tenant)) AS tenant,
    arraySort(arrayDistinct(groupArrayArray(r.lit))) AS lit
FROM
(
    SELECT cluster, service, workload_id, max(tenant) AS tenant, groupUniqArray(minute) AS lit
    FROM recent GROUP BY cluster, service, workload_id
) AS r
LEFT JOIN
(
    SELECT workload_id, max(if(reported_tenant != '', reported_tenant, tenant)) AS tenant
    FROM allocations
    WHERE start_at < {until:DateTime64(3, 'UTC')} AND workload_id != ''
        AND (end_at IS NULL OR end_at > {since:DateTime64(3, 'UTC')} - INTERVAL 1 DAY)
    GROUP BY workload_id
) AS h ON r.workload_id = h.workload_id
GROUP BY cluster, service
