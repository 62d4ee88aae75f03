-- One row: a device on which a workload was sampled.
SELECT DISTINCT cluster, workload_id, device_id
FROM samples
WHERE workload_id IN {workloads:Array(String)} AND batch GLOBAL IN {batches:Identifier}
ORDER BY cluster, workload_id, device_id
