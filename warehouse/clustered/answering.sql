-- One row: a node of the cluster that answers, by the name that the configuration has for it.
-- $$cluster: the cluster's name as SQL.   Parameter: cluster String.
-- Traps:   clusterAllReplicas counts each node as a shard, in the order of the configuration.
SELECT n.host_name AS host_name
FROM
(
    SELECT toUInt32(row_number() OVER (ORDER BY shard_num, replica_num)) AS number, host_name
    FROM system.clusters
    WHERE cluster = {cluster:String}
) AS n
INNER JOIN (SELECT DISTINCT _shard_num AS number FROM clusterAllReplicas($cluster, system.one)) AS up ON n.number = up.number
SETTINGS skip_unavailable_shards = 1
