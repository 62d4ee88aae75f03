-- One row: a workload that was sampled on a device: its last sample and, since an instant, its first (null: none since).
-- Parameters: devices, workloads Array(String), since DateTime64(3).
SELECT cluster, device_id, workload_id, minOrNullIf(ts, ts >= {since:DateTime64(3, 'UTC')}) AS first_since
FROM samples
WHERE device_id IN {devices:Array(String)} AND workload_id IN {workloads:Array(String)}
GROUP BY cluster, device_id, workload_id
