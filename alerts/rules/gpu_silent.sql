-- One row: an available device of which nothing is told while others of its node are.
-- Units:   value: seconds since its newest sample, or since it became available; at most the window.
-- Params:  at; window_seconds; fresh_seconds = the node's newest sample is no older.
WITH
    spoken AS
    (
        SELECT cluster, device_id, max(ts) AS last_at FROM samples
        WHERE ts > {at:DateTime64(3, 'UTC')} - toIntervalSecond({window_seconds:UInt32}) AND ts <= {at:DateTime64(3, 'UTC')}
        GROUP BY cluster, device_id
    ),
    one_device AS
    (
        SELECT
            d.cluster AS cluster, d.node AS node, d.device_id AS device_id, d.model AS model,
            s.last_at AS spoke_at,
            greatest(s.last_at, d.since, {at:DateTime64(3, 'UTC')} - toIntervalSecond({window_seconds:UInt32})) AS last_at
        FROM devices_at(at = {at:DateTime64(3, 'UTC')}) AS d
        LEFT JOIN spoken AS s ON d.cluster = s.cluster AND d.device_id = s.device_id
        WHERE d.state = 'available'
    )
SELECT cluster, node, device_id, model, last_at, dateDiff('second', last_at, {at:DateTime64(3, 'UTC')}) AS value
FROM (SELECT *, max(spoke_at) OVER (PARTITION BY cluster, node) AS node_spoke_at FROM one_device)
WHERE node_spoke_at > {at:DateTime64(3, 'UTC')} - toIntervalSecond({fresh_seconds:UInt32}) AND last_at < node_spoke_at
