-- One row: how much of the platform's own time (and of what nobody named held) has no price.
-- Units:   billionths of a GPU-hour.
-- Params:  start, end = [start, end).
SELECT
    sum(intDiv((toInt128((used_unit_ms + idle_unit_ms) * toDecimal128(1000000, 0)) + toInt128(unmetered_unit_ms + unallocated_unit_ms + unavailable_unit_ms) * 1000000) * 1000,
        toInt128(device_units) * 3600000)) AS unpriced_nano_hours
FROM ledger
WHERE tenant = '' AND list_unit_price IS NULL
    AND charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
