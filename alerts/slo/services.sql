-- One row: a service that reported something lately, whose it is, and the minutes in which it reported (lit, in order). A part of
-- errors.sql and latencies.sql, which say what is recent.
-- Shape:   tenant: as it reported, else as the holder of one of its replicas was reported.
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
