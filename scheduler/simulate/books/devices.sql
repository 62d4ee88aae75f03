-- One row: a device that the books have in a period.
-- hours, down_hours: GPU-hours that they have of it, and of those in which it was unavailable.   units: of the device, as at last.
-- is_mig: a MIG instance of it was held, in the period or since {since}.
-- Params:  start, end DateTime64(3) (UTC, [start, end)); since DateTime64(3), not after start.
SELECT
    l.cluster AS cluster, argMax(l.node, l.charge_period_start) AS node, l.device_id AS device_id, argMax(l.model, l.charge_period_start) AS model,
    argMax(l.pool, l.charge_period_start) AS pool, argMax(l.device_units, l.charge_period_start) AS units, countIf(l.partition_profile != '') > 0 AS is_mig,
    toFloat64(sumIf((l.used_unit_ms + l.idle_unit_ms + l.unmetered_unit_ms + l.unallocated_unit_ms + l.unavailable_unit_ms)
        / (l.device_units * 3600000), l.charge_period_start >= {start:DateTime64(3,'UTC')})) AS hours,
    toFloat64(sumIf(l.unavailable_unit_ms / (l.device_units * 3600000), l.charge_period_start >= {start:DateTime64(3,'UTC')})) AS down_hours
FROM ledger AS l
WHERE l.hour > {since:DateTime64(3,'UTC')} - INTERVAL 1 HOUR AND l.hour < {end:DateTime64(3,'UTC')}
GROUP BY cluster, device_id
HAVING hours > 0
ORDER BY cluster, pool, model, node, device_id
