-- One row: an allocation held units of a device for one payer during [start_at, end_at).
-- Params:  $$which: a condition that selects the allocations (billing.close.stage.WHICH).
INSERT INTO {new:Identifier}
(
    claim, cluster, source, allocation_id, workload_id, tenant, project, queue, preemptible, node, device_id,
    partition_id, partition_profile, units, start_at, end_at, estimated, cost_center, reported_tenant, reported_project,
    priority, unmapped
)
SELECT
    claim, cluster, source, allocation_id, workload_id, tenant, project, queue, preemptible, node, device_id,
    partition_id, partition_profile, units,
    fromUnixTimestamp64Milli(start_ms, 'UTC') AS start_at,
    -- What stands beneath a NULL is read by clients, too, and must be a time.
    if(end_ms >= {forever:Int64}, NULL, fromUnixTimestamp64Milli(if(end_ms >= {forever:Int64}, 0, end_ms), 'UTC'))
        AS end_at,
    estimated, cost_center, reported_tenant, reported_project, priority, unmapped
FROM {settled:Identifier}
WHERE $which
