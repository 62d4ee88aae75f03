-- Writes all events as a Parquet file. Params: path of the file.
INSERT INTO FUNCTION file({path:String}, 'Parquet')
SELECT ts, cluster, source, allocation_id, workload_id, event, tenant, project, queue, node, device_id, partition_id, units
FROM events
