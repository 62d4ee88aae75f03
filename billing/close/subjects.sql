-- One row: a combination that may need a price. The platform's own time has neither profile nor tenant.
SELECT DISTINCT model, pool, partition_profile, tenant
FROM
(
    SELECT states.model AS model, states.pool AS pool, claims.partition_profile AS partition_profile, claims.tenant AS tenant
    FROM (SELECT DISTINCT cluster, device_id, partition_profile, tenant FROM {settled:Identifier}) AS claims
    INNER JOIN (SELECT DISTINCT cluster, device_id, model, pool FROM {states:Identifier}) AS states
        ON claims.cluster = states.cluster AND claims.device_id = states.device_id
    UNION ALL
    SELECT model, pool, '' AS partition_profile, '' AS tenant FROM {states:Identifier}
)
ORDER BY model, pool, partition_profile, tenant
