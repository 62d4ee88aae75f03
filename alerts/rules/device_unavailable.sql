-- One row: a device that is unavailable, and for how long.
-- Units:   value: seconds.
-- Params:  at.
WITH held AS (SELECT cluster, device_id, groupUniqArray(workload_id) AS workloads FROM holders(at = {at:DateTime64(3, 'UTC')}) GROUP BY cluster, device_id)
SELECT
    d.cluster AS cluster, d.node AS node, d.device_id AS device_id, d.model AS model, d.pool AS pool,
    dateDiff('second', d.since, {at:DateTime64(3, 'UTC')}) AS value,
    d.since AS since,
    arrayStringConcat(held.workloads, ' ') AS workloads
FROM devices_at(at = {at:DateTime64(3, 'UTC')}) AS d
LEFT JOIN held ON d.cluster = held.cluster AND d.device_id = held.device_id
WHERE d.state = 'unavailable'
