-- One row: a device and the mean of one of its metrics over the window.
-- Units:   value: the metric's; null: it was asked, and never answered.
-- Params:  at; window_seconds; metric.
SELECT
    cluster, any(m.node) AS node, device_id,
    max(m.value) AS highest,
    avg(m.value) AS value
FROM metrics AS m
WHERE ts > {at:DateTime64(3, 'UTC')} - toIntervalSecond({window_seconds:UInt32}) AND ts <= {at:DateTime64(3, 'UTC')} AND metric = {metric:String} AND partition_id = '' AND workload_id = '' AND state NOT IN ('unsupported')
GROUP BY cluster, device_id
