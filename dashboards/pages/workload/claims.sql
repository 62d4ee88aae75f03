-- One row: the workload held a share of a device during [start_at, end_at) (NULL: still), as the last close decided.
-- device_units: of the device as last reported (0: not reported), model likewise.
-- Parameters: workload String
SELECT
    a.cluster AS cluster, a.allocation_id AS allocation_id, a.tenant AS tenant, a.project AS project, a.queue AS queue,
    a.priority AS priority, a.preemptible AS preemptible, a.node AS node, a.device_id AS device_id,
    a.partition_id AS partition_id, a.partition_profile AS partition_profile, a.units AS units, a.start_at AS start_at,
    a.end_at AS end_at, a.estimated AS estimated, d.units AS device_units, d.model AS model
FROM (SELECT * FROM allocations WHERE workload_id = {workload:String}) AS a
LEFT JOIN v_devices AS d ON a.cluster = d.cluster AND a.device_id = d.device_id
ORDER BY start_at, node, device_id, partition_id
LIMIT 1000
