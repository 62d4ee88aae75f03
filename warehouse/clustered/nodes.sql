-- One row: a node of a cluster, as the node that is asked has it in its configuration.
-- Parameter: cluster String.
SELECT shard_num, replica_num, host_name, port
FROM system.clusters
WHERE cluster = {cluster:String}
ORDER BY shard_num, replica_num
