-- One row: a node or device where later reports may still change a claim from before an instant: a node (device_id '')
-- where a claim with a node only was given its devices, or none; a device on which an end counts as lost, or may come to
-- count as lost because its holder was not sampled since.
-- Units:   decided_ms = reports about times from then on can change nothing, ms since the epoch.
-- Parameters: until DateTime64(3).
WITH
    {until:DateTime64(3, 'UTC')} AS until,
    toInt64(4611686018427387904) AS never,
    on_nodes AS
    (
        SELECT cluster, allocation_id, max(ifNull(toUnixTimestamp64Milli(end_at), never)) AS decided_ms
        FROM
        (
            SELECT cluster, allocation_id, end_at FROM allocations WHERE start_at < until
            UNION ALL
            SELECT cluster, allocation_id, end_at FROM refused_claims WHERE start_at < until AND reason = 'no_free_device'
        )
        WHERE end_at IS NULL OR end_at >= until
        GROUP BY cluster, allocation_id
    ),
    open AS
    (
        SELECT cluster, device_id, workload_id FROM allocations WHERE start_at < until AND end_at IS NULL
    ),
    seen AS
    (
        SELECT cluster, device_id, workload_id, toUnixTimestamp64Milli(min(ts)) AS first_ms
        FROM samples
        WHERE ts >= until AND workload_id GLOBAL IN (SELECT workload_id FROM open) AND workload_id != ''
        GROUP BY cluster, device_id, workload_id
    )
SELECT cluster, node, device_id, max(decided_ms) AS decided_ms
FROM
(
    SELECT events.cluster AS cluster, toString(events.node) AS node, '' AS device_id, on_nodes.decided_ms AS decided_ms
    FROM events
    INNER JOIN on_nodes ON events.cluster = on_nodes.cluster AND events.allocation_id = on_nodes.allocation_id
    WHERE ts < until AND events.device_id = '' AND events.node != '' AND event IN ('started', 'resized', 'resumed')
        AND events.allocation_id IN (SELECT allocation_id FROM on_nodes)
    UNION ALL
    SELECT cluster, '' AS node, toString(device_id) AS device_id, never AS decided_ms
    FROM allocations
    WHERE start_at < until AND startsWith(estimated, 'end lost')
    UNION ALL
    SELECT open.cluster AS cluster, '' AS node, toString(open.device_id) AS device_id, if(seen.first_ms = 0, never, seen.first_ms) AS decided_ms
    FROM open
    LEFT JOIN seen ON open.cluster = seen.cluster AND open.device_id = seen.device_id AND open.workload_id = seen.workload_id
)
GROUP BY cluster, node, device_id
