-- One row: a node with available devices, and how old the newest sample of any of them is.
-- Units:   value: seconds since the newest sample, or since a device became available if that is later; at most the window.
-- Params:  at; window_seconds.
WITH spoken AS
(
    SELECT cluster, device_id, max(ts) AS last_at FROM samples
    WHERE ts > {at:DateTime64(3, 'UTC')} - toIntervalSecond({window_seconds:UInt32}) AND ts <= {at:DateTime64(3, 'UTC')}
    GROUP BY cluster, device_id
)
SELECT
    d.cluster AS cluster, d.node AS node,
    count() AS devices,
    max(greatest(s.last_at, d.since, {at:DateTime64(3, 'UTC')} - toIntervalSecond({window_seconds:UInt32}))) AS last_at,
    dateDiff('second', last_at, {at:DateTime64(3, 'UTC')}) AS value
FROM devices_at(at = {at:DateTime64(3, 'UTC')}) AS d
LEFT JOIN spoken AS s ON d.cluster = s.cluster AND d.device_id = s.device_id
WHERE d.state = 'available'
GROUP BY d.cluster, d.node
