-- A closed ledger without facts: {rows:UInt64} entries, one an hour and device from {start:DateTime64(3, 'UTC')} on, of
-- 40 tenants with three projects each; a workload holds a device for a day.
-- Params:  rows; devices; start.
INSERT INTO ledger_entries
(
    run, hour, cluster, node, device_id, model, pool, device_units, tenant, project, queue, workload_id, allocation_id,
    units, charge_period_start, charge_period_end, sku, list_unit_price, contracted_unit_price, billing_currency,
    used_unit_ms, idle_unit_ms
)
WITH
    number % {devices:UInt64} AS device,
    intDiv(number, {devices:UInt64}) AS hours,
    lower(hex(MD5(concat(toString(intDiv(hours, 24)), '-', toString(device))))) AS work
SELECT
    7,
    toDateTime({start:DateTime64(3, 'UTC')}, 'UTC') + toIntervalHour(hours) AS hour,
    'c1',
    concat('node-', toString(intDiv(device, 8))),
    concat('GPU-', lower(hex(MD5(toString(device))))),
    'NVIDIA H100 80GB HBM3',
    'train',
    1,
    concat('tenant-', toString(device % 40)),
    concat('project-', toString(device % 120)),
    'default',
    work,
    work,
    1,
    toDateTime64(hour, 3, 'UTC') AS since,
    since + toIntervalHour(1),
    'h100',
    2,
    1.75,
    'EUR',
    toDecimal64(cityHash64(number) % 3600000, 6) + toDecimal64(cityHash64(number, 1) % 1000000, 6) / 1000000 AS used,
    3600000 - used
FROM numbers({rows:UInt64})
