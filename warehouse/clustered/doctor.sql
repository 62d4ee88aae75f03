-- One row: a node of the cluster and how it fares. NULL: it does not answer.
-- shard: its number.
-- clock_seconds: how far its clock is ahead of that of the node that is asked, to a second and what asking takes.
-- read_only: tables that have lost Keeper. lag_seconds: of the table that is furthest behind. queued: entries of the
-- replication log that it has not followed. parts, most_parts: active ones, and those of the partition that has most.
-- mutations: unfinished. unsent: files that tables of the engine Distributed have not sent.
-- $$cluster: the cluster's name as SQL.   Parameters: cluster, database String.
-- Traps:   clusterAllReplicas counts each node as a shard, in the order of the configuration. now() is the asking
--          node's everywhere; nowInBlock() is not. currentDatabase() is the answering node's own.
SELECT
    n.host_name AS node, n.shard_num AS shard, o.version AS version, o.ahead AS clock_seconds,
    if(isNull(o.version), NULL, ifNull(r.tables, 0)) AS tables,
    if(isNull(o.version), NULL, ifNull(r.read_only, 0)) AS read_only,
    if(isNull(o.version), NULL, ifNull(r.lag_seconds, 0)) AS lag_seconds,
    if(isNull(o.version), NULL, ifNull(r.queued, 0)) AS queued,
    if(isNull(o.version), NULL, ifNull(p.parts, 0)) AS parts,
    if(isNull(o.version), NULL, ifNull(p.most_parts, 0)) AS most_parts,
    if(isNull(o.version), NULL, ifNull(m.mutations, 0)) AS mutations,
    if(isNull(o.version), NULL, ifNull(d.unsent, 0)) AS unsent
FROM
(
    SELECT toUInt32(row_number() OVER (ORDER BY shard_num, replica_num)) AS number, shard_num, host_name
    FROM system.clusters
    WHERE cluster = {cluster:String}
) AS n
LEFT JOIN
(
    SELECT
        _shard_num AS number, any(version()) AS version,
        any(toInt64(toUnixTimestamp(nowInBlock()))) - toInt64(toUnixTimestamp(now())) AS ahead
    FROM clusterAllReplicas($cluster, system.one)
    GROUP BY number
) AS o ON n.number = o.number
LEFT JOIN
(
    SELECT
        _shard_num AS number, count() AS tables, countIf(is_readonly) AS read_only,
        max(absolute_delay) AS lag_seconds, sum(queue_size) AS queued
    FROM clusterAllReplicas($cluster, system.replicas)
    WHERE database = {database:String}
    GROUP BY number
) AS r ON n.number = r.number
LEFT JOIN
(
    SELECT number, sum(of_partition) AS parts, max(of_partition) AS most_parts
    FROM
    (
        SELECT _shard_num AS number, count() AS of_partition
        FROM clusterAllReplicas($cluster, system.parts)
        WHERE database = {database:String} AND active
        GROUP BY number, table, partition_id
    )
    GROUP BY number
) AS p ON n.number = p.number
LEFT JOIN
(
    SELECT _shard_num AS number, count() AS mutations
    FROM clusterAllReplicas($cluster, system.mutations)
    WHERE database = {database:String} AND NOT is_done
    GROUP BY number
) AS m ON n.number = m.number
LEFT JOIN
(
    SELECT _shard_num AS number, sum(data_files) AS unsent
    FROM clusterAllReplicas($cluster, system.distribution_queue)
    WHERE database = {database:String}
    GROUP BY number
) AS d ON n.number = d.number
ORDER BY n.number
SETTINGS skip_unavailable_shards = 1, join_use_nulls = 1
