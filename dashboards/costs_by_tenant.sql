-- One row: a tenant that held something in the period ('' has no name), or the platform (is_platform) with the time
-- that is nobody's charge.
-- Units: GPU-hours; cost: GPU-hours x list_unit_price. unpriced: GPU-hours without a price.
-- Floating point: for charts; amounts to pay come from the billing floor, which refuses two currencies in one period.
-- Parameters: start, end DateTime64(3) (UTC, [start, end))
WITH priced AS
(
    SELECT
        tenant,
        allocation_id = '' AS is_platform,
        toFloat64(used_unit_ms) / (device_units * 3600000) AS used,
        toFloat64(idle_unit_ms) / (device_units * 3600000) AS idle,
        unmetered_unit_ms / (device_units * 3600000) AS unmetered,
        unallocated_unit_ms / (device_units * 3600000) AS unallocated,
        unavailable_unit_ms / (device_units * 3600000) AS unavailable,
        toFloat64(list_unit_price) AS price
    FROM ledger
    WHERE charge_period_start >= {start:DateTime64(3,'UTC')} AND charge_period_start < {end:DateTime64(3,'UTC')}
        AND hour >= {start:DateTime64(3,'UTC')} - INTERVAL 1 HOUR AND hour < {end:DateTime64(3,'UTC')} + INTERVAL 1 HOUR
)
SELECT
    tenant,
    is_platform,
    sum(used) AS used_gpu_hours,
    sum(idle) AS idle_gpu_hours,
    sum(unmetered) AS unmetered_gpu_hours,
    sum(unallocated) AS unallocated_gpu_hours,
    sum(unavailable) AS unavailable_gpu_hours,
    sum(used * price) AS used_cost,
    sum(idle * price) AS idle_cost,
    sum(unmetered * price) AS unmetered_cost,
    sum(unallocated * price) AS unallocated_cost,
    sum(unavailable * price) AS unavailable_cost,
    sumIf(used + idle + unmetered + unallocated + unavailable, price IS NULL) AS unpriced_gpu_hours
FROM priced
GROUP BY tenant, is_platform
ORDER BY is_platform, tenant
