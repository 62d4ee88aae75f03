-- One row: an open allocation with samples of its own that began after the issued months, on each node that its device was
-- ever on. If its own samples stop and its device is sampled for a day longer, its end counts as lost, and the room on the
-- node goes to what began before it.
-- Units:   last_ms = its last own sample, ms since the epoch.
-- Parameters: clusters, nodes Array(String): pairs, not empty; devices Array(String), empty: all; until DateTime64(3).
WITH
    stands AS
    (
        SELECT DISTINCT cluster, node, device_id
        FROM devices
        WHERE (cluster, node) IN (SELECT arrayJoin(arrayZip({clusters:Array(String)}, {nodes:Array(String)})))
            AND (empty({devices:Array(String)}) OR device_id IN {devices:Array(String)})
    ),
    open AS
    (
        SELECT stands.cluster AS cluster, stands.node AS node, stands.device_id AS device_id, begun.workload_id AS workload_id,
            begun.start_ms AS start_ms
        FROM
        (
            SELECT cluster, device_id, workload_id, toUnixTimestamp64Milli(max(start_at)) AS start_ms
            FROM allocations
            WHERE start_at >= {until:DateTime64(3, 'UTC')} AND end_at IS NULL AND workload_id != ''
            GROUP BY cluster, device_id, workload_id
        ) AS begun
        INNER JOIN stands ON begun.cluster = stands.cluster AND begun.device_id = stands.device_id
    )
SELECT open.cluster AS cluster, open.node AS node, open.device_id AS device_id, open.workload_id AS workload_id, seen.last_ms AS last_ms
FROM open
INNER JOIN
(
    SELECT cluster, device_id, workload_id, toUnixTimestamp64Milli(max(ts)) AS last_ms
    FROM samples
    WHERE ts >= {until:DateTime64(3, 'UTC')} AND workload_id GLOBAL IN (SELECT workload_id FROM open) AND device_id GLOBAL IN (SELECT device_id FROM open)
    GROUP BY cluster, device_id, workload_id
) AS seen ON open.cluster = seen.cluster AND open.device_id = seen.device_id AND open.workload_id = seen.workload_id
WHERE seen.last_ms > open.start_ms
