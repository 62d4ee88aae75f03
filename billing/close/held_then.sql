-- Adds to settled what unchanged allocations held in the hours that the close examines.
-- Params:  firsts, nexts: those hours, [first, next) each; first_month: of the first (allocations are partitioned by the
--          month of their end).   $$keys: billing/rates/subject_keys.sql.
INSERT INTO {settled:Identifier}
(
    claim, cluster, source, allocation_id, workload_id, tenant, project, queue, preemptible, priority, node, device_id,
    partition_id, partition_profile, units, start_ms, end_ms, estimated, cost_center, reported_tenant, reported_project, unmapped,
    device, stream_1, stream_2, stream_3, stream_4, payer
)
SELECT
    claim, cluster, source, allocation_id, workload_id, tenant, project, queue, preemptible, priority, node, device_id,
    partition_id, partition_profile, units,
    toUnixTimestamp64Milli(start_at) AS start_ms,
    ifNull(toUnixTimestamp64Milli(end_at), {forever:Int64}) AS end_ms,
    estimated, cost_center, reported_tenant, reported_project, unmapped,
    cityHash64(cluster, device_id) AS device,
    cityHash64(cluster, device_id, partition_id, workload_id) AS stream_1,
    cityHash64(cluster, device_id, partition_id, '') AS stream_2,
    cityHash64(cluster, device_id, '', workload_id) AS stream_3,
    cityHash64(cluster, device_id, '', '') AS stream_4,
    cityHash64(partition_profile, tenant, $keys) AS payer
FROM allocations
WHERE (_partition_id = '0' OR toUInt32(_partition_id) >= {first_month:UInt32})
    AND arrayExists((first, next) -> start_ms < toInt64(next) * 3600000 AND end_ms > toInt64(first) * 3600000, {firsts:Array(UInt32)}, {nexts:Array(UInt32)})
    AND allocation_hash NOT IN {alive:Identifier}
