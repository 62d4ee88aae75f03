-- One row: what a tenant held (or, with tenant '' and held = 0, what nobody held) of a pool in the closed hours of a
-- period, at one price, on devices with one number of units.
-- Units:   micro_ms: millionths of a unit-millisecond; prices per GPU-hour.
-- Params:  start, end = [start, end).
SELECT
    pool,
    allocation_id != '' AS held,
    tenant,
    device_units,
    if(held, contracted_unit_price, list_unit_price) AS unit_price,
    toInt128(sum(if(held, used_unit_ms + idle_unit_ms + unmetered_unit_ms, CAST(unallocated_unit_ms AS Decimal(18, 6)))) * 1000000) AS micro_ms
FROM ledger
WHERE charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
GROUP BY pool, held, tenant, device_units, unit_price
HAVING micro_ms > 0
ORDER BY pool, held, tenant, device_units, unit_price
