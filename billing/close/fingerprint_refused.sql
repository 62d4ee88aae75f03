-- One row: the fingerprint of refused claims: the sum of their rows' hashes.
-- Params:  refused_claims: the table.
SELECT sum(cityHash64(
    reason, detail, cluster, allocation_id, tenant, device_id, partition_id, units, start_at,
    ifNull(toString(end_at), ''))) AS fingerprint
FROM {refused_claims:Identifier}
