-- One row: one metric of a device, and its newest value within the window.
-- Units:   value: the metric's; null: nothing was reported.
-- Params:  at; window_seconds; metric: several.
SELECT
    metric, cluster, argMax(m.node, ts) AS node, device_id,
    argMax(m.value, ts) AS value,
    max(ts) AS reported_at
FROM metrics AS m
WHERE ts > {at:DateTime64(3, 'UTC')} - toIntervalSecond({window_seconds:UInt32}) AND ts <= {at:DateTime64(3, 'UTC')} AND metric IN {metric:Array(String)} AND partition_id = '' AND workload_id = '' AND m.value IS NOT NULL
GROUP BY metric, cluster, device_id
