-- One row: fingerprints of tables that a close publishes: sums of their rows' hashes, so that order does not matter.
-- Params:  allocations, refused_claims = the tables.
SELECT
    (
        SELECT sum(cityHash64(
            claim, cluster, source, allocation_id, workload_id, tenant, project, queue, preemptible, node, device_id,
            partition_id, partition_profile, units, start_at, ifNull(toString(end_at), ''), estimated, cost_center,
            reported_tenant, reported_project, ifNull(toString(priority), ''), unmapped))
        FROM {allocations:Identifier}
    ) AS allocations,
    (
        SELECT sum(cityHash64(
            reason, detail, cluster, allocation_id, tenant, device_id, partition_id, units, start_at,
            ifNull(toString(end_at), '')))
        FROM {refused_claims:Identifier}
    ) AS refused_claims
