-- One row: what was reported of an allocation before an instant, and the values with which its events fill in empty
-- columns.
-- Shape:   placed: rows that gave it devices; on_node: those without a device; first_placed, last_placed, last_ended: ms,
--          0: never.
--          no_*: placing rows before the instant that leave the column empty, so that another event fills it in.
-- Parameters: allocations Array(String), until DateTime64(3).
WITH
    {until:DateTime64(3, 'UTC')} AS until,
    ts < until AND event IN ('started', 'resized', 'resumed') AND (device_id != '' OR node != '') AS placing,
    ts < until AND event IN ('preempted', 'finished', 'failed', 'cancelled', 'rejected') AS ending
SELECT
    cluster,
    allocation_id,
    countIf(placing) AS placed,
    countIf(placing AND device_id = '') AS on_node,
    groupUniqArrayIf(node, placing) AS nodes,
    toInt64(minIf(toUnixTimestamp64Milli(ts), placing)) AS first_placed,
    toInt64(maxIf(toUnixTimestamp64Milli(ts), placing)) AS last_placed,
    toInt64(maxIf(toUnixTimestamp64Milli(ts), ending)) AS last_ended,
    countIf(placing AND events.tenant = '') AS no_tenant,
    countIf(placing AND events.project = '') AS no_project,
    countIf(placing AND events.queue = '') AS no_queue,
    countIf(placing AND events.workload_id = '') AS no_workload_id,
    countIf(placing AND events.gpus IS NULL) AS no_gpus,
    countIf(placing AND events.priority IS NULL) AS no_priority,
    minIf(events.tenant, events.tenant != '') AS tenant,
    minIf(events.project, events.project != '') AS project,
    minIf(events.queue, events.queue != '') AS queue,
    minIf(events.workload_id, events.workload_id != '') AS workload_id,
    max(events.gpus) AS gpus,
    max(events.priority) AS priority,
    max(ifNull(events.preemptible, false)) AS preemptible
FROM events
WHERE allocation_id IN {allocations:Array(String)}
GROUP BY cluster, allocation_id
