-- One row: a day of a tenant (all_tenants = 0) or of the whole fleet, platform's own time and all.
-- Units:   *_micro_ms: millionths of a unit-millisecond of a device with `scale_units` units, so that unlike devices
--          add up: a GPU-hour is scale_units x 3,600,000 x 1,000,000 of them.
-- Params:  start, end = [start, end); all_tenants, tenant = whom; timezone = where days are cut.
WITH
    entries AS
    (
        SELECT
            toDate(charge_period_start, {timezone:String}) AS local_day,
            device_units,
            sum(used_unit_ms) AS used,
            sum(idle_unit_ms) AS idle,
            sum(unmetered_unit_ms) AS unmetered,
            sum(unallocated_unit_ms) AS unallocated,
            sum(unavailable_unit_ms) AS unavailable
        FROM ledger
        WHERE charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
            AND ({all_tenants:UInt8} OR (tenant = {tenant:String} AND allocation_id != ''))
        GROUP BY ALL
    ),
    (
        SELECT arrayFold((whole, one) -> lcm(whole, one), groupUniqArray(toUInt64(device_units)), toUInt64(1))
        FROM entries
    ) AS scale
SELECT
    toString(local_day) AS day,
    any(scale) AS scale_units,
    sum(toInt128(used * 1000000) * intDiv(scale, device_units)) AS used_micro_ms,
    sum(toInt128(idle * 1000000) * intDiv(scale, device_units)) AS idle_micro_ms,
    sum(toInt128(unmetered) * 1000000 * intDiv(scale, device_units)) AS unmetered_micro_ms,
    sum(toInt128(unallocated) * 1000000 * intDiv(scale, device_units)) AS unallocated_micro_ms,
    sum(toInt128(unavailable) * 1000000 * intDiv(scale, device_units)) AS unavailable_micro_ms
FROM entries
GROUP BY local_day
ORDER BY local_day
