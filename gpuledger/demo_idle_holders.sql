-- One row: an allocation that the demo's reference scheduler started on one device or partition, as it started: its part
-- of the device in units, of the device's `whole`. Parameters: allocations Array(String), source String.
SELECT
    e.cluster AS cluster, e.allocation_id AS allocation_id, any(e.workload_id) AS workload_id, any(e.tenant) AS tenant,
    any(e.project) AS project, any(e.queue) AS queue, any(e.priority) AS priority,
    any(e.node) AS node, any(e.device_id) AS device_id, any(e.partition_id) AS partition_id,
    any(e.partition_profile) AS partition_profile, any(d.model) AS model, any(d.units) AS whole,
    coalesce(any(e.units), any(d.units)) AS units
FROM events AS e
INNER JOIN v_devices AS d ON d.cluster = e.cluster AND d.device_id = e.device_id
WHERE e.event = 'started' AND e.source = {source:String} AND has({allocations:Array(String)}, e.allocation_id)
GROUP BY cluster, allocation_id
HAVING uniqExact(e.device_id, e.partition_id) = 1
ORDER BY allocation_id
