-- One row: a reason and a device, and which part of the window its clocks were held down for it.
-- Units:   value: 0-1 of the measured time; null: less than half of the window is measured.
-- Params:  at; window_seconds; metric: of throttle_thermal_seconds, throttle_power_seconds and throttle_hardware_seconds.
SELECT
    metric, cluster, any(m.node) AS node, device_id,
    sumIf(interval_seconds, m.value IS NOT NULL) AS measured_seconds,
    sum(m.value) AS throttled_seconds,
    if(measured_seconds >= {window_seconds:UInt32} / 2, least(1., throttled_seconds / measured_seconds), NULL) AS value
FROM (SELECT * FROM metrics FINAL WHERE ts > {at:DateTime64(3, 'UTC')} - toIntervalSecond({window_seconds:UInt32}) AND ts <= {at:DateTime64(3, 'UTC')} AND metric IN {metric:Array(String)} AND partition_id = '' AND workload_id = '') AS m
GROUP BY metric, cluster, device_id
