-- The same attribution written for DuckDB. One row: a tenant's used, covered and unmetered GPU-hours.
-- Params:  samples = list of Parquet files; events = Parquet file; until = TIMESTAMPTZ at which the books are cut.
-- Knows:   whole devices only, one holder at a time, rows of the device and of its holder never over the same time.
WITH
    held AS
    (
        SELECT
            cluster,
            allocation_id,
            any_value(workload_id) AS workload_id,
            any_value(tenant) AS tenant,
            max(device_id) AS device_id,
            epoch_ms($until::TIMESTAMPTZ) AS until_ms,
            epoch_ms(min(ts) FILTER (event = 'started')) AS start_ms,
            least(coalesce(epoch_ms(max(ts) FILTER (event = 'finished')), until_ms), until_ms) AS end_ms
        FROM read_parquet($events)
        GROUP BY cluster, allocation_id
        HAVING start_ms < end_ms
    ),
    held_hours AS
    (
        SELECT
            cluster, device_id, workload_id, allocation_id, tenant, hour,
            greatest(start_ms, hour * 3600000) AS start_ms,
            least(end_ms, (hour + 1) * 3600000) AS end_ms
        FROM (SELECT *, unnest(range(start_ms // 3600000, (end_ms - 1) // 3600000 + 1)) AS hour FROM held)
    ),
    spans AS
    (
        SELECT
            cluster, device_id, workload_id, state, utilization,
            epoch_ms(ts) AS end_ms,
            greatest(
                end_ms - (interval_seconds * 1000)::BIGINT,
                lag(epoch_ms(ts)) OVER (PARTITION BY cluster, device_id, partition_id, workload_id ORDER BY ts)
            ) AS start_ms
        FROM read_parquet($samples)
    ),
    span_hours AS
    (
        SELECT
            cluster, device_id, workload_id, utilization, start_ms, end_ms,
            unnest(range(start_ms // 3600000, (end_ms - 1) // 3600000 + 1)) AS hour
        FROM spans
        WHERE state IN ('ok', 'idle')
    ),
    measured AS
    (
        SELECT
            held.allocation_id,
            held.hour,
            sum(least(span.end_ms, held.end_ms) - greatest(span.start_ms, held.start_ms)) AS covered_ms,
            sum((least(span.end_ms, held.end_ms) - greatest(span.start_ms, held.start_ms)) * span.utilization) AS used_ms
        FROM span_hours AS span
        INNER JOIN held_hours AS held USING (cluster, device_id, hour)
        WHERE span.workload_id IN ('', held.workload_id) AND span.start_ms < held.end_ms AND span.end_ms > held.start_ms
        GROUP BY held.allocation_id, held.hour
    )
SELECT
    tenant,
    coalesce(sum(used_ms), 0) / 3600000 AS used,
    coalesce(sum(covered_ms), 0) / 3600000 AS covered,
    (sum(end_ms - start_ms) - coalesce(sum(covered_ms), 0)) / 3600000 AS unmetered
FROM held_hours
LEFT JOIN measured USING (allocation_id, hour)
GROUP BY tenant
ORDER BY tenant
