-- One row: one of a tenant's most expensive workloads, by what its GPU-hours cost at contracted prices (before
-- adjustments); those whose price is not known at all come last.
-- Units:   *_micro_ms as in statement_days.sql, of a device with `scale_units` units; cost: the same, each times its
--          price in billionths. cost counts what has a price, unpriced_micro_ms the rest. workloads: how many there are.
-- Params:  start, end = [start, end); tenant; top = how many rows.
WITH
    entries AS
    (
        SELECT
            workload_id,
            project,
            device_units,
            contracted_unit_price AS price,
            sum(used_unit_ms) AS used,
            sum(idle_unit_ms) AS idle,
            sum(unmetered_unit_ms) AS unmetered
        FROM ledger
        WHERE charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
            AND tenant = {tenant:String} AND allocation_id != ''
        GROUP BY ALL
    ),
    (
        SELECT arrayFold((whole, one) -> lcm(whole, one), groupUniqArray(toUInt64(device_units)), toUInt64(1))
        FROM entries
    ) AS scale,
    scaled AS
    (
        SELECT
            workload_id,
            project,
            price,
            toInt256(used * 1000000) * intDiv(scale, device_units) AS used_part,
            toInt256(idle * 1000000) * intDiv(scale, device_units) AS idle_part,
            toInt256(unmetered) * 1000000 * intDiv(scale, device_units) AS unmetered_part,
            used_part + idle_part + unmetered_part AS held_part
        FROM entries
    )
SELECT
    workload_id,
    project,
    any(scale) AS scale_units,
    sum(used_part) AS used_micro_ms,
    sum(idle_part) AS idle_micro_ms,
    sum(unmetered_part) AS unmetered_micro_ms,
    sum(if(price IS NULL, held_part, 0)) AS unpriced_micro_ms,
    sum(held_part * toInt256(toDecimal128(ifNull(price, 0), 9) * 1000000000)) AS cost,
    count() OVER () AS workloads
FROM scaled
GROUP BY workload_id, project
ORDER BY
    unpriced_micro_ms = used_micro_ms + idle_micro_ms + unmetered_micro_ms, cost DESC,
    used_micro_ms + idle_micro_ms + unmetered_micro_ms DESC, project, workload_id
LIMIT {top:UInt32}
