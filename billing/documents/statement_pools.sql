-- One row: a pool of the fleet in the closed hours of a period: its capacity, and the part that is charged to no tenant.
-- Units:   *_micro_ms as in statement_days.sql, of a device with `scale_units` units; *_cost: the same, each times its list
--          price in billionths; *_unpriced: the part without a price, which is in no cost.
-- Params:  start, end = [start, end).
WITH
    entries AS
    (
        SELECT
            pool,
            device_units,
            list_unit_price AS price,
            sum(used_unit_ms) + sum(idle_unit_ms) + sum(unmetered_unit_ms) AS allocated,
            sum(unallocated_unit_ms) AS unallocated,
            sum(unavailable_unit_ms) AS unavailable
        FROM ledger
        WHERE charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
        GROUP BY ALL
    ),
    (
        SELECT arrayFold((whole, one) -> lcm(whole, one), groupUniqArray(toUInt64(device_units)), toUInt64(1))
        FROM entries
    ) AS scale,
    scaled AS
    (
        SELECT
            pool,
            price,
            toInt256(ifNull(toDecimal128(price, 9), 0) * 1000000000) AS price_nano,
            toInt256(allocated * 1000000) * intDiv(scale, device_units) AS allocated_part,
            toInt256(unallocated) * 1000000 * intDiv(scale, device_units) AS unallocated_part,
            toInt256(unavailable) * 1000000 * intDiv(scale, device_units) AS unavailable_part
        FROM entries
    )
SELECT
    pool,
    any(scale) AS scale_units,
    sum(allocated_part) AS allocated_micro_ms,
    sum(unallocated_part) AS unallocated_micro_ms,
    sum(unavailable_part) AS unavailable_micro_ms,
    sum(unallocated_part * price_nano) AS unallocated_cost,
    sum(unavailable_part * price_nano) AS unavailable_cost,
    sum(if(price IS NULL, unallocated_part, 0)) AS unallocated_unpriced,
    sum(if(price IS NULL, unavailable_part, 0)) AS unavailable_unpriced
FROM scaled
GROUP BY pool
ORDER BY pool
