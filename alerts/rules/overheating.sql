-- One row: a device and its mean temperature over the window.
-- Units:   value: degrees Celsius; null: fewer than {least} samples tell it.
-- Params:  at; window_seconds; least.
SELECT
    cluster, any(s.node) AS node, device_id, any(d.model) AS model,
    countIf(temperature_celsius IS NOT NULL) AS samples,
    max(temperature_celsius) AS highest_celsius,
    if(samples >= {least:UInt32}, avg(temperature_celsius), NULL) AS value
FROM
(
    SELECT cluster, node, device_id, temperature_celsius
    FROM samples
    WHERE ts > {at:DateTime64(3, 'UTC')} - toIntervalSecond({window_seconds:UInt32}) AND ts <= {at:DateTime64(3, 'UTC')} AND partition_id = ''
) AS s
LEFT JOIN devices_at(at = {at:DateTime64(3, 'UTC')}) AS d ON s.cluster = d.cluster AND s.device_id = d.device_id
GROUP BY cluster, device_id
