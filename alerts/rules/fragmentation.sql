-- One row: a waiting allocation whose GPUs are free in its queue's pools, but on no node together.
-- Units:   value: seconds that it has waited.   A device counts as free if nobody holds any part of it.
-- Shape:   only what one node could hold, were it empty, is asked of one node.
-- Params:  at; pool_days.
WITH
    devices AS (SELECT * FROM devices_at(at = {at:DateTime64(3, 'UTC')}) WHERE state = 'available'),
    held AS (SELECT DISTINCT cluster, device_id FROM holders(at = {at:DateTime64(3, 'UTC')})),
    nodes AS
    (
        SELECT d.cluster AS cluster, d.pool AS pool, d.node AS node, count() AS devices, countIf(h.device_id = '') AS free
        FROM devices AS d LEFT JOIN held AS h ON d.cluster = h.cluster AND d.device_id = h.device_id
        GROUP BY d.cluster, d.pool, d.node
    ),
    queue_pools AS
    (
        SELECT DISTINCT e.cluster AS cluster, e.queue AS queue, d.pool AS pool
        FROM events AS e INNER JOIN devices AS d ON e.cluster = d.cluster AND e.device_id = d.device_id
        WHERE e.event IN ('started', 'resized') AND e.ts > {at:DateTime64(3, 'UTC')} - toIntervalDay({pool_days:UInt32}) AND e.ts <= {at:DateTime64(3, 'UTC')}
    )
SELECT
    w.cluster AS cluster, w.allocation_id AS allocation_id, w.workload_id AS workload_id, w.tenant AS tenant,
    w.queue AS queue, w.gpus AS gpus, sum(n.free) AS free, max(n.free) AS most_on_one_node, max(n.devices) AS largest_node,
    countIf(n.free > 0) AS nodes_with_free,
    dateDiff('second', w.submitted_at, {at:DateTime64(3, 'UTC')}) AS value
FROM waiters(at = {at:DateTime64(3, 'UTC')}) AS w
INNER JOIN queue_pools AS q ON w.cluster = q.cluster AND w.queue = q.queue
INNER JOIN nodes AS n ON q.cluster = n.cluster AND q.pool = n.pool
GROUP BY ALL
HAVING gpus >= 2 AND gpus <= largest_node AND free >= gpus AND most_on_one_node < gpus
