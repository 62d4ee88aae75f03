-- One row: one counter of a device, and by how much it rose within the window.
-- Units:   value: the counter's. One that fell was started anew: what it shows then counts.
-- Params:  at; window_seconds; metric: several.
SELECT
    metric, cluster, node, device_id, reported_at,
    readings[-1] AS total,
    arraySum(arrayMap((now, before) -> if(now < before, now, now - before), arrayPopFront(readings), arrayPopBack(readings))) AS value
FROM
(
    SELECT
        metric, cluster, argMax(m.node, ts) AS node, device_id,
        max(ts) AS reported_at,
        arrayMap(one -> one.2, arraySort(groupArray((ts, ifNull(m.value, 0))))) AS readings
    FROM metrics AS m
    WHERE ts > {at:DateTime64(3, 'UTC')} - toIntervalSecond({window_seconds:UInt32}) AND ts <= {at:DateTime64(3, 'UTC')} AND metric IN {metric:Array(String)} AND partition_id = '' AND workload_id = '' AND m.value IS NOT NULL
    GROUP BY metric, cluster, device_id
)
