-- One row: a device or MIG instance that some allocations of a cluster held, and how it was used: what a recommendation
-- rests on, computed the plain way. Ledger: hours held (of the clock), metered and idle part, hours that were idle
-- throughout. Samples: quantiles of utilization by stream (who is measured), weighted by the time covered, and memory.
-- Units:   coverage 0-1; cost, idle_cost at the contracted price, not exact.
-- Params:  cluster, allocations; start, end = [start, end); idle_below, min_coverage in millionths; hour_ms.
SELECT
    held.allocation_id AS allocation_id, held.device_id AS device_id, held.partition_id AS partition_id,
    hours, coverage, idle_hours, idle_cost, cost, measured_as, p50, p95, p99, max_memory_bytes, samples
FROM
(
    SELECT
        allocation_id, device_id, partition_id,
        sum(held_ms) / {hour_ms:UInt32} AS hours,
        sum(metered) / sum(held_units_ms) AS coverage,
        countIf(held_ms = {hour_ms:UInt32} AND metered * 1000000 >= held_units_ms * {min_coverage:UInt32}
            AND used * 1000000 <= metered * {idle_below:UInt32}) AS idle_hours,
        sum(hour_idle_cost) AS idle_cost,
        sum(hour_cost) AS cost
    FROM
    (
        SELECT
            allocation_id, device_id, partition_id, hour,
            sum(used_unit_ms) AS used,
            sum(used_unit_ms + idle_unit_ms) AS metered,
            sum(used_unit_ms + idle_unit_ms + unmetered_unit_ms) AS held_units_ms,
            held_units_ms / any(units) AS held_ms,
            sum(toFloat64(idle_unit_ms) / device_units / {hour_ms:UInt32} * toFloat64(contracted_unit_price)) AS hour_idle_cost,
            sum(toFloat64(used_unit_ms + idle_unit_ms + unmetered_unit_ms) / device_units / {hour_ms:UInt32}
                * toFloat64(contracted_unit_price)) AS hour_cost
        FROM ledger
        WHERE cluster = {cluster:String} AND allocation_id IN {allocations:Array(String)}
            AND charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
        GROUP BY allocation_id, device_id, partition_id, hour
    )
    GROUP BY allocation_id, device_id, partition_id
) AS held
LEFT JOIN
(
    SELECT
        allocation_id, device_id, partition_id,
        if(samples.workload_id = '', 'everybody', 'workload') AS measured_as,
        quantileExactWeighted(0.5)(per_mille, weight) / 1000 AS p50,
        quantileExactWeighted(0.95)(per_mille, weight) / 1000 AS p95,
        quantileExactWeighted(0.99)(per_mille, weight) / 1000 AS p99,
        max(memory_used_bytes) AS max_memory_bytes,
        count() AS samples
    FROM
    (
        SELECT
            claims.allocation_id AS allocation_id, samples.device_id AS device_id, samples.partition_id AS partition_id,
            samples.workload_id AS workload_id, memory_used_bytes,
            toUInt16(ceil(ifNull(utilization, 0) * 1000 - 0.000001)) AS per_mille,
            toUInt32(least(toInt64(round(interval_seconds * 1000)), dateDiff('millisecond', since, ts))) AS weight
        FROM
        (
            SELECT device_id, partition_id, workload_id, memory_used_bytes, utilization, interval_seconds, ts
            FROM samples
            WHERE samples.cluster = {cluster:String} AND state <= 'idle' AND ts > {start:DateTime64(3, 'UTC')}
                AND ts <= {end:DateTime64(3, 'UTC')}
        ) AS samples
        INNER JOIN
        (
            SELECT
                allocation_id, workload_id, device_id, partition_id,
                greatest(start_at, {start:DateTime64(3, 'UTC')}) AS since,
                least(ifNull(end_at, {end:DateTime64(3, 'UTC')}), {end:DateTime64(3, 'UTC')}) AS until
            FROM allocations
            WHERE cluster = {cluster:String} AND allocation_id IN {allocations:Array(String)}
        ) AS claims
            ON samples.device_id = claims.device_id AND samples.partition_id = claims.partition_id
        WHERE ts > since AND ts <= until AND samples.workload_id IN ('', claims.workload_id)
    ) AS samples
    GROUP BY allocation_id, device_id, partition_id, measured_as
) AS measured
    ON held.allocation_id = measured.allocation_id AND held.device_id = measured.device_id
    AND held.partition_id = measured.partition_id
ORDER BY allocation_id, device_id, partition_id, measured_as
