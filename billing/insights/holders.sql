-- One row: what an allocation held of one device or MIG instance, alone and for {idle_hours} hours or more, in the closed
-- hours of a period, and its idle stretches. Time-slices and shares of a device are not here: freeing one frees no device.
-- Units:   *_micro_ms: millionths of a unit-millisecond; cost_*: those x contracted price in billionths, without what
--          has no price (unpriced_micro_ms); hours and stretches as hours since 1970.
-- Shape:   stretches = arrays of (hour, idle_micro_ms, cost): at least {idle_hours} consecutive hours, each held whole,
--          metered for {min_coverage} of it and used for at most {idle_below} of that.
-- Params:  start, end = [start, end); min_coverage, idle_below = parts of 1 in millionths.
WITH
    by_hour AS
    (
        SELECT
            cluster, allocation_id, device_id, partition_id, hour, device_units,
            max(units) AS units,
            argMax((tenant, project, queue, workload_id, node, model, pool, partition_profile), charge_period_start) AS words,
            argMax((contracted_unit_price, billing_currency), charge_period_start) AS price,
            max(billing_currency) AS a_currency,
            min(billing_currency) AS another_currency,
            min(charge_period_start) AS since,
            max(charge_period_end) AS until,
            toInt128(sum(used_unit_ms) * 1000000) AS used,
            toInt128(sum(idle_unit_ms) * 1000000) AS idle,
            toInt128(sum(unmetered_unit_ms)) * 1000000 AS unmetered,
            used + idle + unmetered AS held,
            sumIf(toInt128(toDecimal128(used_unit_ms + idle_unit_ms + unmetered_unit_ms, 6) * 1000000), contracted_unit_price IS NULL) AS unpriced,
            sum(toInt128(toDecimal128(used_unit_ms + idle_unit_ms + unmetered_unit_ms, 6) * 1000000)
                * toInt128(toDecimal128(ifNull(contracted_unit_price, 0), 9) * 1000000000)) AS cost,
            sum(toInt128(toDecimal128(idle_unit_ms, 6) * 1000000)
                * toInt128(toDecimal128(ifNull(contracted_unit_price, 0), 9) * 1000000000)) AS idle_cost,
            held = toInt128(units) * 3600000000000
                AND (used + idle) * 1000000 >= held * {min_coverage:UInt32}
                AND used * 1000000 <= (used + idle) * {idle_below:UInt32} AS is_idle
        FROM ledger
        WHERE allocation_id != ''
            AND charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
            AND hour >= toDateTime({start:DateTime64(3, 'UTC')}, 'UTC') - INTERVAL 1 HOUR
            AND hour < toDateTime({end:DateTime64(3, 'UTC')}, 'UTC') + INTERVAL 1 HOUR
        GROUP BY cluster, allocation_id, device_id, partition_id, hour, device_units
    ),
    memory AS
    (
        SELECT cluster, device_id, argMax(memory_bytes, ts) AS memory_bytes FROM devices GROUP BY cluster, device_id
    )
SELECT
    cluster, allocation_id, device_id, partition_id,
    argMax(by_hour.device_units, hour) AS device_units,
    argMax(words, hour) AS latest,
    latest.1 AS tenant, latest.2 AS project, latest.3 AS queue, latest.4 AS workload_id, latest.5 AS node,
    latest.6 AS model, latest.7 AS pool, latest.8 AS partition_profile,
    min(by_hour.units) AS least_units,
    argMax(by_hour.units, hour) AS units,
    min(since) AS start_at,
    max(until) AS end_at,
    argMax(price, hour) AS latest_price,
    latest_price.1 AS contracted_unit_price,
    latest_price.2 AS billing_currency,
    groupUniqArrayArrayIf([a_currency, another_currency], a_currency != '') AS currencies,
    sum(used) AS used_micro_ms,
    sum(idle) AS idle_micro_ms,
    sum(unmetered) AS unmetered_micro_ms,
    sum(unpriced) AS unpriced_micro_ms,
    sum(by_hour.cost) AS cost,
    arraySort(groupArrayIf((toInt64(intDiv(toUnixTimestamp(hour), 3600)), idle, by_hour.idle_cost), is_idle)) AS idle_hours,
    arrayFilter(
        stretch -> length(stretch) >= {idle_hours:UInt32},
        arraySplit((x, gap) -> gap > 1, idle_hours, arrayDifference(idle_hours.1))) AS stretches,
    length(stretches) AS idle_stretches,
    arraySum(arrayMap(s -> length(s), stretches)) AS idle_stretch_hours,
    arrayMax(arrayMap(s -> length(s), stretches)) AS longest_idle_hours,
    arraySum(arrayMap(s -> arraySum(s.2), stretches)) AS idle_stretch_micro_ms,
    arraySum(arrayMap(s -> arraySum(s.3), stretches)) AS idle_stretch_cost,
    arrayMin(arrayMap(s -> s[1].1, stretches)) AS idle_since_hour,
    arrayMax(arrayMap(s -> s[-1].1, stretches)) + 1 AS idle_until_hour,
    any(memory.memory_bytes) AS device_memory_bytes
FROM by_hour
LEFT JOIN memory USING (cluster, device_id)
GROUP BY cluster, allocation_id, device_id, partition_id
HAVING (least_units = device_units OR partition_profile != '')
    AND used_micro_ms + idle_micro_ms + unmetered_micro_ms >= toInt128(units) * {idle_hours:UInt32} * 3600000000000
ORDER BY cluster, allocation_id, device_id, partition_id
