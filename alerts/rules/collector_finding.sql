-- One row: something that a collector found and nobody has put right, by node.
-- Units:   value: how often within the window.
-- Params:  at; window_seconds; findings = which.
SELECT
    cluster, node, finding,
    count() AS value,
    uniqExactIf(device_id, device_id != '') AS devices,
    max(ts) AS last_at,
    argMax(f.message, ts) AS message
FROM (SELECT DISTINCT ts, cluster, node, device_id, workload_id, finding, message FROM findings WHERE ts > {at:DateTime64(3, 'UTC')} - toIntervalSecond({window_seconds:UInt32}) AND ts <= {at:DateTime64(3, 'UTC')} AND severity >= 'warning' AND has({findings:Array(String)}, finding)) AS f
GROUP BY cluster, node, finding
