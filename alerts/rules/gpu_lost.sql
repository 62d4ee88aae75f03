-- One row: a device that the driver lost, or that must be reset, and that has said nothing usable since.
-- Units:   value: how often that was found within the window.
-- Params:  at; window_seconds.
WITH
    lost AS
    (
        SELECT cluster, node, device_id, uniqExact(ts) AS times, max(ts) AS last_at, argMax((finding, message), ts) AS newest
        FROM findings
        WHERE ts > {at:DateTime64(3, 'UTC')} - toIntervalSecond({window_seconds:UInt32}) AND ts <= {at:DateTime64(3, 'UTC')} AND finding IN ('gpu_lost', 'reset_required') AND device_id != ''
        GROUP BY cluster, node, device_id
    ),
    alive AS
    (
        SELECT cluster, device_id, max(ts) AS last_at
        FROM samples
        WHERE ts > {at:DateTime64(3, 'UTC')} - toIntervalSecond({window_seconds:UInt32}) AND ts <= {at:DateTime64(3, 'UTC')} AND state <= 'idle' AND (cluster, device_id) GLOBAL IN (SELECT cluster, device_id FROM lost)
        GROUP BY cluster, device_id
    ),
    held AS (SELECT cluster, device_id, groupUniqArray(workload_id) AS workloads FROM holders(at = {at:DateTime64(3, 'UTC')}) GROUP BY cluster, device_id)
SELECT
    l.cluster AS cluster, l.node AS node, l.device_id AS device_id,
    l.times AS value, l.last_at AS last_at, l.newest.1 AS finding, l.newest.2 AS message,
    arrayStringConcat(held.workloads, ' ') AS workloads
FROM lost AS l
LEFT JOIN alive AS a ON l.cluster = a.cluster AND l.device_id = a.device_id
LEFT JOIN held ON l.cluster = held.cluster AND l.device_id = held.device_id
WHERE a.last_at <= l.last_at
