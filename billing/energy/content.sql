-- One row: an hour and the fingerprint of its energy entries, whatever run made them.
SELECT toUInt32(intDiv(toUnixTimestamp(hour), 3600)) AS hour, sum(cityHash64(
    cluster, node, device_id, model, pool, device_units, tenant, project, queue, workload_id, allocation_id,
    preemptible, sku, charge_period_start, energy_millijoules IS NULL, ifNull(energy_millijoules, 0), measured_unit_ms,
    memory_byte_ms IS NULL, ifNull(memory_byte_ms, 0), memory_measured_unit_ms)) AS content
FROM {energy:Identifier}
GROUP BY hour
