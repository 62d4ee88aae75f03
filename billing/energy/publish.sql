-- Writes the energy entries of some hours (hours since the epoch) under a run; closed_hours makes them visible.
INSERT INTO energy_entries
(
    run, hour, cluster, node, device_id, model, pool, device_units, tenant, project, queue, workload_id, allocation_id,
    preemptible, sku, charge_period_start, energy_millijoules, measured_unit_ms, memory_byte_ms, memory_measured_unit_ms
)
SELECT
    {run:UInt64} AS run, hour, cluster, node, device_id, model, pool, device_units, tenant, project, queue, workload_id,
    allocation_id, preemptible, sku, charge_period_start, energy_millijoules, measured_unit_ms, memory_byte_ms,
    memory_measured_unit_ms
FROM {energy:Identifier}
WHERE toUInt32(intDiv(toUnixTimestamp(hour), 3600)) IN {hours:Array(UInt32)}
