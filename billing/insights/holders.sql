-- One row: what an allocation held of one device or MIG instance, alone and for {idle_hours} hours or more, at a tenant's
-- cost, in the closed hours of a period, and its idle stretches. Time-slices and shares of a device are not here: freeing
-- one frees no device.
-- Units:   *_micro_ms: millionths of a unit-millisecond; cost_*: those x contracted price in billionths, without what
--          has no price (unpriced_micro_ms); hours and stretches as hours since 1970.
-- Shape:   a stretch: at least {idle_hours} consecutive hours, each held whole, metered for {min_coverage} of it and used
--          for at most {idle_below} of that. Of allocations of which something can be recommended: a device is idle for a stretch,
--          held for {least_hours} hours or not metered enough; wants_use: something rests on how it was used.
-- Spans:   parts: (hours held, cost, cost of the idle stretches) since each of three {since_hours} (hours since 1970; the
--          first is the period's start).
--          idle_cost: of all idle time; quiet_cost: of that in hours of at most {idle_below} use; dim_cost: of that in hours
--          metered too little.
-- Params:  start, end = [start, end); min_coverage, idle_below = parts of 1 in millionths; tenant: '' = all.
WITH
    by_hour AS
    (
        SELECT
            cluster, allocation_id, device_id, partition_id, tenant, hour, device_units,
            max(ledger.units) AS units,
            argMax(ledger.project, charge_period_start) AS project,
            argMax(ledger.queue, charge_period_start) AS queue,
            argMax(ledger.workload_id, charge_period_start) AS workload_id,
            argMax(ledger.node, charge_period_start) AS node,
            argMax(ledger.model, charge_period_start) AS model,
            argMax(ledger.pool, charge_period_start) AS pool,
            argMax(ledger.partition_profile, charge_period_start) AS partition_profile,
            argMax(ifNull(contracted_unit_price, 0), charge_period_start) AS price,
            argMax(contracted_unit_price IS NULL, charge_period_start) AS is_unpriced,
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
            units = device_units OR partition_profile != '' AS is_own,
            (used + idle) * 1000000 < held * {min_coverage:UInt32} AS is_dim,
            NOT is_dim AND used * 1000000 <= (used + idle) * {idle_below:UInt32} AS is_quiet,
            is_quiet AND held = toInt128(units) * 3600000000000 AS is_idle
        FROM ledger
        WHERE allocation_id != ''
            AND charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
            AND ({tenant:String} = '' OR ledger.tenant = {tenant:String})
        GROUP BY cluster, allocation_id, device_id, partition_id, tenant, hour, device_units
    ),
    holder AS
    (
        SELECT
            cluster, allocation_id, device_id, partition_id, tenant,
            argMax(by_hour.device_units, hour) AS device_units,
            argMax(by_hour.project, hour) AS project,
            argMax(by_hour.queue, hour) AS queue,
            argMax(by_hour.workload_id, hour) AS workload_id,
            argMax(by_hour.node, hour) AS node,
            argMax(by_hour.model, hour) AS model,
            argMax(by_hour.pool, hour) AS pool,
            argMax(by_hour.partition_profile, hour) AS partition_profile,
            argMax(by_hour.units, hour) AS units,
            min(since) AS start_at,
            max(until) AS end_at,
            argMax(price, hour) AS latest_price,
            argMax(is_unpriced, hour) AS latest_is_unpriced,
            sum(used) AS used_micro_ms,
            sum(idle) AS idle_micro_ms,
            sum(unmetered) AS unmetered_micro_ms,
            sum(unpriced) AS unpriced_micro_ms,
            sum(by_hour.idle_cost) AS idle_cost,
            sumIf(by_hour.idle_cost, is_quiet) AS quiet_cost,
            sumIf(by_hour.idle_cost, is_dim) AS dim_cost,
            [
                sum(held),
                sumIf(held, toUnixTimestamp(hour) >= {since_hours:Array(Int64)}[2] * 3600),
                sumIf(held, toUnixTimestamp(hour) >= {since_hours:Array(Int64)}[3] * 3600)
            ] AS held_since,
            [
                sum(by_hour.cost),
                sumIf(by_hour.cost, toUnixTimestamp(hour) >= {since_hours:Array(Int64)}[2] * 3600),
                sumIf(by_hour.cost, toUnixTimestamp(hour) >= {since_hours:Array(Int64)}[3] * 3600)
            ] AS cost_since,
            arraySort(groupArrayIf((toInt64(intDiv(toUnixTimestamp(hour), 3600)), idle, by_hour.idle_cost), is_idle)) AS idle_hours,
            arrayFilter(
                stretch -> length(stretch) >= {idle_hours:UInt32},
                arraySplit((x, gap) -> gap > 1, idle_hours, arrayDifference(idle_hours.1))) AS stretches,
            used_micro_ms + idle_micro_ms AS metered_micro_ms,
            metered_micro_ms + unmetered_micro_ms AS held_micro_ms,
            notEmpty(stretches) OR held_micro_ms >= toInt128(units) * {least_hours:UInt32} * 3600000000000 AS is_long,
            metered_micro_ms * 1000000 < held_micro_ms * {min_coverage:UInt32} AS is_dark
        FROM by_hour
        GROUP BY cluster, allocation_id, device_id, partition_id, tenant
        HAVING min(is_own)
            AND held_micro_ms >= toInt128(units) * {idle_hours:UInt32} * 3600000000000
    ),
    memory AS
    (
        SELECT cluster, device_id, argMax(memory_bytes, (ts, state, units, model, pool, node, vendor, memory_bytes)) AS memory_bytes FROM devices GROUP BY cluster, device_id
    )
SELECT
    cluster, allocation_id, device_id, partition_id, device_units, tenant, project, queue, workload_id, node, model, pool,
    partition_profile, units, start_at, end_at,
    if(latest_is_unpriced, NULL, latest_price) AS contracted_unit_price,
    used_micro_ms, idle_micro_ms, unmetered_micro_ms, unpriced_micro_ms, idle_cost, quiet_cost, dim_cost,
    arrayZip(
        held_since, cost_since,
        arrayMap(
            since_hour -> arraySum(arrayMap(s -> arraySum(arrayMap(h -> if(h.1 >= since_hour, h.3, 0), s)), stretches)),
            {since_hours:Array(Int64)})) AS parts,
    length(stretches) AS idle_stretches,
    arraySum(arrayMap(s -> length(s), stretches)) AS idle_stretch_hours,
    arrayMax(arrayMap(s -> length(s), stretches)) AS longest_idle_hours,
    arraySum(arrayMap(s -> arraySum(s.2), stretches)) AS idle_stretch_micro_ms,
    arrayMin(arrayMap(s -> s[1].1, stretches)) AS idle_since_hour,
    arrayMax(arrayMap(s -> s[-1].1, stretches)) + 1 AS idle_until_hour,
    memory.memory_bytes AS device_memory_bytes,
    wants_use
FROM
(
    SELECT
        *,
        max(is_long) OVER (PARTITION BY cluster, allocation_id, tenant) AS wants_use,
        max(is_dark) OVER (PARTITION BY cluster, allocation_id, tenant) AS wants_reason
    FROM holder
) AS holder
LEFT JOIN memory ON holder.cluster = memory.cluster AND holder.device_id = memory.device_id
WHERE wants_use OR wants_reason
ORDER BY cluster, allocation_id, tenant, device_id, partition_id
