-- Writes samples that end in [first_at, last_at] as a Parquet file, in order of time: as collectors send them.
-- Params:  path of the file; first_at, last_at: DateTime64(3); most: rows at most.
INSERT INTO FUNCTION file({path:String}, 'Parquet')
SELECT
    ts, interval_seconds, cluster, node, device_id, partition_id, workload_id, toString(state) AS state, utilization,
    utilization_source, sm_active, tensor_active, dram_active, memory_used_bytes, memory_total_bytes, power_watts,
    energy_joules, temperature_celsius
FROM samples
WHERE ts > {first_at:DateTime64(3, 'UTC')} AND ts <= {last_at:DateTime64(3, 'UTC')}
ORDER BY ts, device_id
LIMIT {most:UInt64}
