-- One row: a device that is used by somebody who was given nothing there.
-- Units:   value: seconds of activity in the window that no allocation explains, or the window if a collector found it.
-- Shape:   a device that was held at either end of the window, or given away within it, is explained; so are samples of a
--          workload that holds something.
-- Params:  at; window_seconds; used_above = part of 1.
WITH
    held AS
    (
        SELECT cluster, device_id, workload_id FROM holders(at = {at:DateTime64(3, 'UTC')})
        UNION ALL
        SELECT cluster, device_id, workload_id FROM holders(at = addSeconds({at:DateTime64(3, 'UTC')}, -{window_seconds:Int32}))
        UNION ALL
        SELECT cluster, device_id, workload_id FROM events
        WHERE ts > {at:DateTime64(3, 'UTC')} - toIntervalSecond({window_seconds:UInt32}) AND ts <= {at:DateTime64(3, 'UTC')} AND event IN ('started', 'resized', 'resumed')
    ),
    activity AS
    (
        SELECT cluster, node, device_id, sum(interval_seconds) AS seconds, max(utilization) AS most, 'samples' AS reported_by
        FROM samples
        WHERE ts > {at:DateTime64(3, 'UTC')} - toIntervalSecond({window_seconds:UInt32}) AND ts <= {at:DateTime64(3, 'UTC')} AND state <= 'idle'
            AND utilization > {used_above:Float64}
            AND (cluster, device_id) GLOBAL NOT IN (SELECT cluster, device_id FROM held)
            AND (workload_id = '' OR (cluster, workload_id) GLOBAL NOT IN (SELECT cluster, workload_id FROM held))
        GROUP BY cluster, node, device_id
        UNION ALL
        SELECT cluster, node, device_id, sum(interval_seconds * ifNull(value, 0)) AS seconds, max(value) AS most, 'unattributed activity' AS reported_by
        FROM metrics
        WHERE ts > {at:DateTime64(3, 'UTC')} - toIntervalSecond({window_seconds:UInt32}) AND ts <= {at:DateTime64(3, 'UTC')} AND metric = 'unattributed_activity'
            AND value > {used_above:Float64}
        GROUP BY cluster, node, device_id
        UNION ALL
        SELECT cluster, node, device_id, {window_seconds:UInt32} AS seconds, NULL AS most, any(message) AS reported_by
        FROM findings
        WHERE ts > {at:DateTime64(3, 'UTC')} - toIntervalSecond({window_seconds:UInt32}) AND ts <= {at:DateTime64(3, 'UTC')} AND finding = 'process_without_allocation'
        GROUP BY cluster, node, device_id
    )
SELECT
    cluster, node, device_id,
    max(seconds) AS value,
    max(most) AS most_utilization,
    arrayStringConcat(groupUniqArray(reported_by), '; ') AS reported_by
FROM activity
GROUP BY cluster, node, device_id
