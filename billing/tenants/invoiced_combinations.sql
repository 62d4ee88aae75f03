-- One row: a combination of what the sources reported that held something in a month that has issued invoices, and from when
-- to when it did at most.
-- Params:  workload_patterns = regular expressions; workloads = which of them a name matches, as 0101.
SELECT
    reported_tenant AS tenant,
    reported_project AS project,
    queue,
    cluster,
    source,
    arrayStringConcat(arrayMap(pattern -> toString(match(workload_id, pattern)), {workload_patterns:Array(String)})) AS workloads,
    period_start,
    period_end,
    min(greatest(start_at, period_start)) AS first,
    max(least(coalesce(end_at, period_end), period_end)) AS last
FROM allocations
CROSS JOIN
(
    SELECT DISTINCT period_start, period_end
    FROM invoices FINAL
    WHERE number NOT IN (SELECT number FROM voided_invoices)
) AS months
WHERE start_at < period_end AND coalesce(end_at, period_end) > period_start
GROUP BY tenant, project, queue, cluster, source, workloads, period_start, period_end
ORDER BY period_start, tenant, project, queue, cluster, source, workloads
