-- One row: an allocation that holds or uses another amount of one sku at one price in a period than an earlier close said.
-- With by_hour = 1 an hour of it on one device. `again` is the last close that computed some of it again.
-- Units:   *_micro_ms: GPU time in millionths of a unit-millisecond; prices per GPU-hour; instants of the charge.
-- Params:  before, after: the closes (runs) that are compared; start, end = [start, end); tenant; by_hour.
WITH
    hours AS
    (
        SELECT hour, maxIf(run, run <= {before:UInt64}) AS was, max(run) AS now
        FROM ledger_entries
        WHERE run <= {after:UInt64}
            AND hour >= toDateTime({start:DateTime64(3, 'UTC')}, 'UTC') - INTERVAL 1 HOUR
            AND hour < toDateTime({end:DateTime64(3, 'UTC')}, 'UTC') + INTERVAL 1 HOUR
        GROUP BY hour
        HAVING was != now
    ),
    both AS (SELECT hour, arrayJoin([was, now]) AS run FROM hours),
    entries AS
    (
        SELECT
            hour, run, cluster, device_id, allocation_id, workload_id, project, sku, device_units, list_unit_price,
            contracted_unit_price, charge_period_start, charge_period_end,
            toInt128(toDecimal128(used_unit_ms + idle_unit_ms + unmetered_unit_ms, 6) * 1000000) AS micro_ms, 0 AS energy, 0 AS memory
        FROM ledger_entries
        WHERE tenant = {tenant:String} AND allocation_id != '' AND (hour, run) IN (SELECT hour, run FROM both)
        UNION ALL
        SELECT
            hour, run, cluster, device_id, allocation_id, workload_id, project, sku, device_units, NULL, NULL,
            charge_period_start, charge_period_start, 0, ifNull(energy_millijoules, 0), ifNull(memory_byte_ms, 0)
        FROM energy_entries
        WHERE tenant = {tenant:String} AND allocation_id != '' AND (hour, run) IN (SELECT hour, run FROM both)
    )
SELECT
    if({by_hour:UInt8} = 1, toString(hour), '') AS in_hour,
    cluster,
    allocation_id,
    workload_id,
    if({by_hour:UInt8} = 1, device_id, '') AS device,
    project,
    sku,
    device_units,
    list_unit_price,
    contracted_unit_price,
    min(charge_period_start) AS from_at,
    max(charge_period_end) AS to_at,
    max(now) AS again,
    sumIf(micro_ms, run = was) AS was_micro_ms,
    sumIf(micro_ms, run = now) AS now_micro_ms
FROM entries
INNER JOIN hours ON hours.hour = entries.hour
WHERE charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
GROUP BY
    in_hour, cluster, allocation_id, workload_id, device, project, sku, device_units, list_unit_price,
    contracted_unit_price
HAVING was_micro_ms != now_micro_ms OR sumIf(energy, run = was) != sumIf(energy, run = now)
    OR sumIf(memory, run = was) != sumIf(memory, run = now)
ORDER BY from_at, cluster, allocation_id, device, project, sku, device_units, list_unit_price, contracted_unit_price
