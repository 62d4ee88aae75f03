-- One row: what a tenant's project held of one sku at one price in the closed hours of a month, on devices with one
-- number of units.
-- Units:   held_micro_ms: millionths of a unit-millisecond.
-- Params:  start, end = [start, end).
SELECT
    tenant,
    project,
    sku,
    list_unit_price,
    contracted_unit_price,
    device_units,
    toInt128(sum(used_unit_ms + idle_unit_ms) * 1000000) + toInt128(sum(unmetered_unit_ms)) * 1000000 AS held_micro_ms
FROM ledger
WHERE allocation_id != ''
    AND charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
GROUP BY tenant, project, sku, list_unit_price, contracted_unit_price, device_units
HAVING held_micro_ms != 0
