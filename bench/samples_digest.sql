-- One row: what two stores with the same samples have in common: rows, exact sums, and a sum of hashes of all values.
SELECT
    count() AS stored,
    sum(toInt64(round(utilization * 1e9))) AS utilization_nano,
    sum(memory_used_bytes) AS memory_bytes,
    (SELECT sum(touched_hours.rows) FROM touched_hours) AS rows_in_touched_hours,
    sum(cityHash64(
        ts, interval_seconds, cluster, node, device_id, partition_id, workload_id, toString(state), utilization,
        utilization_source, sm_active, tensor_active, dram_active, memory_used_bytes, memory_total_bytes, power_watts,
        energy_joules, temperature_celsius)) AS hashes
FROM samples
