-- One row: a table of a shard of which some node that answers may lack what others of its shard have written, as in
-- behind.sql.
-- $$cluster: the cluster's name as SQL.   Parameters: database String; local Array(String): the tables.
SELECT DISTINCT table
FROM clusterAllReplicas($cluster, system.replicas)
WHERE database = {database:String} AND table IN {local:Array(String)}
    AND (queue_size > 0 OR log_pointer <= log_max_index OR is_readonly OR is_session_expired OR zookeeper_exception != '')
ORDER BY table
SETTINGS skip_unavailable_shards = 1
