-- One row: an hour and the fingerprint of its energy entries that lie in some months.
-- Params:  starts_ms, ends_ms Array(Int64): the months.
SELECT toUInt32(intDiv(toUnixTimestamp(hour), 3600)) AS hour, sum(cityHash64(
    'energy', cluster, node, device_id, model, pool, device_units, tenant, project, queue, workload_id, allocation_id,
    preemptible, sku, charge_period_start, energy_millijoules IS NULL, ifNull(energy_millijoules, 0), measured_unit_ms,
    memory_byte_ms IS NULL, ifNull(memory_byte_ms, 0), memory_measured_unit_ms)) AS content
FROM {energy:Identifier}
WHERE arrayExists(
    (start, end) -> toUnixTimestamp64Milli(charge_period_start) >= start AND toUnixTimestamp64Milli(charge_period_start) < end,
    {starts_ms:Array(Int64)}, {ends_ms:Array(Int64)})
GROUP BY hour
