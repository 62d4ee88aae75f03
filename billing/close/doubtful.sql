-- One row: a claim that cannot simply be believed, and why: it ends before it starts, it names a device that no device
-- row does ('unknown_device'), or others have to be heard with it ('disputed': its device is, or it names none).
SELECT
    claim, cluster, allocation_id, workload_id, tenant, node, device_id, partition_id, units, gpus, start_ms, end_ms,
    multiIf(
        ends_before_it_starts, 'ends_before_it_starts',
        device_id = '', 'disputed',
        (cluster, device_id) NOT IN (SELECT cluster, device_id FROM {states:Identifier}), 'unknown_device',
        (cluster, device_id) IN (SELECT cluster, device_id FROM {disputed:Identifier}), 'disputed',
        '') AS doubt
FROM {claims:Identifier}
WHERE doubt != ''
ORDER BY start_ms, allocation_id, claim
