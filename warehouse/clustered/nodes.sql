-- One row: a node of a cluster, as the node that is asked has it in its configuration.
-- internal_replication: rows are written to one node of the shard, which gives them to the others.
-- Parameter: cluster String.
SELECT shard_num, replica_num, host_name, port, internal_replication
FROM system.clusters
WHERE cluster = {cluster:String}
ORDER BY shard_num, replica_num
