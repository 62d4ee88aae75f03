-- One row: one metric of a device, and its mean over the window.
-- Units:   value: the metric's; null: it was asked, and never answered.
-- Params:  at; window_seconds; metric: several.
SELECT
    metric, cluster, any(m.node) AS node, device_id,
    max(m.value) AS highest,
    avg(m.value) AS value
FROM metrics AS m
WHERE ts > {at:DateTime64(3, 'UTC')} - toIntervalSecond({window_seconds:UInt32}) AND ts <= {at:DateTime64(3, 'UTC')} AND metric IN {metric:Array(String)} AND partition_id = '' AND workload_id = '' AND state NOT IN ('unsupported')
GROUP BY metric, cluster, device_id
