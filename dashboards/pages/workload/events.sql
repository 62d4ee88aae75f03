-- One row: something happened to the workload, as its source reported it, in order. devices: that it named; clusters: in which it was reported.
-- Parameters: workload String; most UInt32
SELECT
    ts, event, allocation_id, anyLast(reason) AS reason, anyLast(message) AS message, anyLast(actor) AS actor,
    max(gpus) AS gpus, arraySort(groupUniqArrayIf(node, node != '')) AS nodes, uniqExactIf(device_id, device_id != '') AS devices,
    groupUniqArray(toString(cluster)) AS clusters
FROM visible_events
WHERE workload_id = {workload:String}
GROUP BY ts, event, allocation_id
ORDER BY ts, indexOf(['submitted', 'started', 'resumed', 'resized', 'suspended', 'preempted'], event) = 0,
    indexOf(['submitted', 'started', 'resumed', 'resized', 'suspended', 'preempted'], event)
LIMIT {most:UInt32}
