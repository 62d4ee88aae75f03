-- A closed ledger without facts: {rows:UInt64} entries, one an hour and device from {start:DateTime64(3, 'UTC')} on;
-- {allocations:UInt64} allocations of {tenants:UInt64} tenants with three projects each hold a device one after the other.
-- Params:  rows; devices; allocations; tenants; start.
INSERT INTO ledger_entries
(
    run, hour, cluster, node, device_id, model, pool, device_units, tenant, project, queue, workload_id, allocation_id,
    units, preemptible, charge_period_start, charge_period_end, sku, list_unit_price, contracted_unit_price,
    billing_currency, used_unit_ms, idle_unit_ms
)
WITH
    number % {devices:UInt64} AS device,
    intDiv(number, {devices:UInt64}) AS hours,
    intDiv((device * intDiv({rows:UInt64}, {devices:UInt64}) + hours) * {allocations:UInt64}, {rows:UInt64}) AS allocation,
    cityHash64(allocation) % {tenants:UInt64} AS of_tenant
SELECT
    7,
    toDateTime({start:DateTime64(3, 'UTC')}, 'UTC') + toIntervalHour(hours) AS hour,
    'c1',
    concat('node-', toString(intDiv(device, 8))),
    concat('GPU-', toString(device)),
    'NVIDIA H100 80GB HBM3',
    'train',
    1,
    concat('tenant-', toString(of_tenant)),
    concat('project-', toString(allocation % 3)),
    'default',
    toString(allocation),
    toString(allocation),
    1,
    allocation % 5 = 0,
    toDateTime64(hour, 3, 'UTC') AS since,
    since + toIntervalHour(1),
    'h100',
    2,
    1.75,
    'EUR',
    toDecimal64(cityHash64(number) % 3600000, 6) + toDecimal64(cityHash64(number, 1) % 1000000, 6) / 1000000 AS used,
    3600000 - used
FROM numbers({rows:UInt64})
