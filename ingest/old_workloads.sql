-- One row: a workload, of those asked about, that was placed before an instant with only its node reported.
-- Parameters: workloads Array(String), until DateTime64(3).
SELECT DISTINCT cluster, if(workload_id = '', allocation_id, workload_id) AS workload_id
FROM events
WHERE ts < {until:DateTime64(3, 'UTC')} AND event IN ('started', 'resized', 'resumed') AND device_id = '' AND node != ''
    AND (workload_id IN {workloads:Array(String)} OR (workload_id = '' AND allocation_id IN {workloads:Array(String)}))
