-- The engine's own way in. $path is text: the statement takes no parameter there.
INSERT INTO samples
(
    ts, interval_seconds, cluster, node, device_id, partition_id, workload_id, state, utilization, utilization_source,
    sm_active, tensor_active, dram_active, memory_used_bytes, memory_total_bytes, power_watts, energy_joules,
    temperature_celsius
)
FROM INFILE '$path' FORMAT Parquet
