-- The claims that the books believe: those nobody disputes as they are, the decided ones as decided.
-- Units:   units 0 (all of the device) becomes what the device had when the claim started.
CREATE TABLE {settled:Identifier} ENGINE = Memory AS
SELECT
    claim,
    claims.cluster AS cluster,
    source,
    allocation_id,
    workload_id,
    tenant,
    project,
    queue,
    preemptible,
    claims.node AS node,
    claims.device_id AS device_id,
    partition_id,
    partition_profile,
    if(claims.units > 0, claims.units, if(at_start.units > 0, at_start.units, first.units)) AS units,
    claims.start_ms AS start_ms,
    claims.end_ms AS end_ms,
    estimated
FROM {claims:Identifier} AS claims
ASOF LEFT JOIN {states:Identifier} AS at_start
    ON claims.cluster = at_start.cluster AND claims.device_id = at_start.device_id AND claims.start_ms >= at_start.start_ms
INNER JOIN (SELECT cluster, device_id, argMin(units, start_ms) AS units FROM {states:Identifier} GROUP BY cluster, device_id) AS first
    ON claims.cluster = first.cluster AND claims.device_id = first.device_id
WHERE NOT ends_before_it_starts
    AND (claims.cluster, claims.device_id) NOT IN (SELECT cluster, device_id FROM {disputed:Identifier})
UNION ALL
SELECT
    decided.claim AS claim,
    claims.cluster AS cluster,
    source,
    allocation_id,
    workload_id,
    tenant,
    project,
    queue,
    preemptible,
    claims.node AS node,
    decided.device_id AS device_id,
    partition_id,
    partition_profile,
    decided.units AS units,
    claims.start_ms AS start_ms,
    decided.end_ms AS end_ms,
    decided.estimated AS estimated
FROM {claims:Identifier} AS claims
INNER JOIN {decided:Identifier} AS decided ON claims.claim = decided.told_as
