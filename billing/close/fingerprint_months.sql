-- One row: a month of allocations (by their end; 0: still held) and the fingerprint of its rows: the sum of their hashes, so that order
-- does not matter.
-- Params:  allocations: the table.   known: months to leave out.
SELECT
    _partition_id AS month,
    sum(cityHash64(
        claim, cluster, source, allocation_id, workload_id, tenant, project, queue, preemptible, node, device_id,
        partition_id, partition_profile, units, start_at, ifNull(toString(end_at), ''), estimated, cost_center,
        reported_tenant, reported_project, ifNull(toString(priority), ''), unmapped)) AS fingerprint
FROM {allocations:Identifier}
WHERE _partition_id NOT IN {known:Array(String)}
GROUP BY month
