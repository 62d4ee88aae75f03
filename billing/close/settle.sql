-- The claims that the books believe: those nobody disputes as they are, the decided ones as decided.
-- Shape:   device and the four streams are hashes of what they name, so that the steps after this compare
--          integers: stream_1 the workload on its partition, stream_2 everybody on it, stream_3 the workload on the
--          device, stream_4 everybody on it (as in the table samples).
--          payer, the reported and the others after them are as in paid.sql; without a tenant mapping they are final.
-- Units:   units 0 (all of the device) becomes what the device had when the claim started.
-- $$keys:   billing/rates/subject_keys.sql.
CREATE TABLE {settled:Identifier} ENGINE = Memory AS
WITH
    first AS
    (
        SELECT cluster, device_id, argMin(units, start_ms) AS units FROM {states:Identifier} GROUP BY cluster, device_id
    ),
    believed AS
    (
        SELECT claim AS source_claim, claim, claims.device_id AS device_id,
            multiIf(claims.units > 0, claims.units, at_start.units > 0, at_start.units, first.units) AS units,
            claims.start_ms AS start_ms, claims.end_ms AS end_ms, estimated
        FROM {claims:Identifier} AS claims
        ASOF LEFT JOIN {states:Identifier} AS at_start
            ON claims.cluster = at_start.cluster AND claims.device_id = at_start.device_id AND claims.start_ms >= at_start.start_ms
        INNER JOIN first ON claims.cluster = first.cluster AND claims.device_id = first.device_id
        WHERE NOT ends_before_it_starts
            AND (claims.cluster, claims.device_id) NOT IN (SELECT cluster, device_id FROM {disputed:Identifier})
        UNION ALL
        SELECT source_claim, claim, device_id, units, start_ms, end_ms, estimated FROM {decided:Identifier}
    )
SELECT
    believed.claim AS claim,
    cluster,
    source,
    allocation_id,
    workload_id,
    tenant,
    project,
    queue,
    preemptible,
    priority,
    node,
    believed.device_id AS device_id,
    partition_id,
    partition_profile,
    believed.units AS units,
    believed.start_ms AS start_ms,
    believed.end_ms AS end_ms,
    believed.estimated AS estimated,
    cityHash64(cluster, believed.device_id) AS device,
    cityHash64(cluster, believed.device_id, partition_id, workload_id) AS stream_1,
    cityHash64(cluster, believed.device_id, partition_id, '') AS stream_2,
    cityHash64(cluster, believed.device_id, '', workload_id) AS stream_3,
    cityHash64(cluster, believed.device_id, '', '') AS stream_4,
    believed.claim AS source_claim,
    tenant AS reported_tenant,
    project AS reported_project,
    toLowCardinality('') AS cost_center,
    false AS unmapped,
    cityHash64(partition_profile, tenant, $keys) AS payer
FROM {claims:Identifier} AS claims
INNER JOIN believed ON claims.claim = believed.source_claim
