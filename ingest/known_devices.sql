-- One row: a device last reported in the cluster, wherever it is now; removed devices are left out.
-- Parameters: cluster String.
SELECT ts, cluster, node, device_id, vendor, model, memory_bytes, units, pool, toString(state) AS state
FROM
(
    SELECT *
    FROM devices FINAL
    WHERE cluster = {cluster:String}
    ORDER BY ts DESC
    LIMIT 1 BY device_id
)
WHERE state != 'removed' AND node != ''
ORDER BY device_id
