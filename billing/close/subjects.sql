-- One row: a combination that may need a price. The platform's own time has neither profile, tenant, queue nor
-- priority, and is not preemptible; it has a cluster.
-- Shape:   priority_level = 0 where no priority was reported, else 1 + how many of the bounds it reaches; priority = one of
--          those in the level.
-- Params:  settled: what is held.   $$keys: billing/rates/subject_keys.sql.
SELECT model, pool, cluster, partition_profile, tenant, queue, priority_level, preemptible, min(reported_priority) AS priority
FROM
(
    SELECT
        states.model AS model, states.pool AS pool, states.priced_cluster AS cluster, claims.partition_profile AS partition_profile,
        claims.tenant AS tenant, claims.queue AS queue, claims.priority_level AS priority_level,
        claims.preemptible AS preemptible, claims.reported_priority AS reported_priority
    FROM
    (
        SELECT
            cluster, device_id, partition_profile, tenant,
            $keys,
            min(settled.priority) AS reported_priority
        FROM {settled:Identifier} AS settled
        GROUP BY cluster, device_id, partition_profile, tenant, queue, priority_level, preemptible
    ) AS claims
    INNER JOIN (SELECT DISTINCT cluster, device_id, model, pool, priced_cluster FROM {states:Identifier}) AS states
        ON claims.cluster = states.cluster AND claims.device_id = states.device_id
    UNION ALL
    SELECT model, pool, priced_cluster AS cluster, '' AS partition_profile, '' AS tenant, '' AS queue, 0 AS priority_level, 0 AS preemptible,
        CAST(NULL AS Nullable(Int64)) AS reported_priority
    FROM {states:Identifier}
)
GROUP BY model, pool, cluster, partition_profile, tenant, queue, priority_level, preemptible
ORDER BY model, pool, cluster, partition_profile, tenant, queue, priority_level, preemptible
