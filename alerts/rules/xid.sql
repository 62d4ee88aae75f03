-- One row: a device and an XID that it reported within the window.
-- Units:   value: how often.
-- Params:  at; window_seconds; codes = those that are meant; others = true: all but those.
SELECT
    cluster, node, device_id, code,
    count() AS value,
    min(ts) AS first_at,
    max(ts) AS last_at,
    argMax(text, ts) AS message,
    arrayStringConcat(arraySort(groupUniqArrayIf(workload_id, workload_id != '')), ' ') AS workloads
FROM
(
    SELECT DISTINCT ts, cluster, node, device_id, workload_id, message AS text, toUInt32OrZero(extract(message, 'XID (\\d+)')) AS code
    FROM findings
    WHERE ts > {at:DateTime64(3, 'UTC')} - toIntervalSecond({window_seconds:UInt32}) AND ts <= {at:DateTime64(3, 'UTC')} AND finding = 'xid'
)
WHERE has({codes:Array(UInt32)}, code) != {others:Bool}
GROUP BY cluster, node, device_id, code
