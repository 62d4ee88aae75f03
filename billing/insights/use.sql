-- One row: how an allocation used one device or partition in a period, by the stream that speaks of most of it.
-- Units:   utilization in per mille of what the stream names, rounded up; quantiles weighted by the time that a sample
--          covers, exact; covered_ms: time that usable samples cover (the ledger's own coverage is exact, this one may
--          count a sample that was sent twice); idle_memory_bytes: the most that was held while utilization was at most
--          {idle_below} (millionths).
-- Params:  start, end = [start, end); allocations: those that are asked for; every = 1: all.
-- Reads:   samples once, of the days that these had; of allocations that hold whole devices or MIG instances for {least_ms} of the
--          period or longer.
-- Traps:   whoever holds the whole of what a stream names is alone on it, so both streams speak of this workload:
--          the one under its name, and everybody's.
WITH
    spoken AS
    (
        SELECT
            cityHash64(cluster, allocation_id, device_id, partition_id) AS holder,
            cluster, allocation_id, device_id, partition_id,
            greatest(start_at, {start:DateTime64(3, 'UTC')}) AS since,
            least(ifNull(end_at, {end:DateTime64(3, 'UTC')}), {end:DateTime64(3, 'UTC')}) AS until,
            named,
            if(named,
                cityHash64(cluster, device_id, partition_id, workload_id),
                cityHash64(cluster, device_id, partition_id, '')) AS stream
        FROM allocations
        ARRAY JOIN [true, false] AS named
        WHERE start_at < {end:DateTime64(3, 'UTC')} AND (end_at IS NULL OR end_at > {start:DateTime64(3, 'UTC')})
            AND ({every:Bool} OR allocation_id IN {allocations:Array(String)})
            AND (partition_profile != '' OR (cluster, device_id, units) IN (SELECT cluster, device_id, units FROM devices))
            AND dateDiff('millisecond', since, until) >= {least_ms:Int64}
    ),
    measured AS
    (
        SELECT
            spoken.holder AS holder,
            spoken.named AS named,
            toUInt16(ceil(ifNull(utilization, 0) * 1000 - 0.000001)) AS per_mille,
            toUInt32(least(toInt64(round(interval_seconds * 1000)), dateDiff('millisecond', spoken.since, ts))) AS weight,
            memory_used_bytes,
            memory_total_bytes,
            utilization_source,
            utilization * 1000000 <= {idle_below:UInt32} AS is_idle
        FROM
        (
            SELECT stream, ts, interval_seconds, utilization, memory_used_bytes, memory_total_bytes, utilization_source
            FROM samples
            WHERE ts > {start:DateTime64(3, 'UTC')} AND ts <= {end:DateTime64(3, 'UTC')} AND state <= 'idle'
                AND device_id GLOBAL IN (SELECT device_id FROM spoken)
                AND (stream, toDate(ts)) GLOBAL IN
                (
                    SELECT stream, arrayJoin(arrayMap(
                        day -> toDate(day), range(toUInt32(toDate(since)), toUInt32(toDate(until)) + 1)))
                    FROM spoken
                )
        ) AS samples
        ASOF INNER JOIN spoken ON samples.stream = spoken.stream AND samples.ts > spoken.since
        WHERE ts <= spoken.until
    ),
    by_stream AS
    (
        SELECT
            holder, named,
            sum(weight) AS covered_ms,
            count() AS samples,
            quantilesExactWeighted(0.5, 0.95, 0.99)(per_mille, weight) AS quantiles,
            max(memory_used_bytes) AS max_memory_bytes,
            max(memory_total_bytes) AS memory_total_bytes,
            maxIf(memory_used_bytes, is_idle) AS idle_memory_bytes,
            groupUniqArray(utilization_source) AS sources
        FROM measured
        GROUP BY holder, named
    )
SELECT
    cluster, allocation_id, device_id, partition_id, covered_ms, samples, quantiles[1] AS p50, quantiles[2] AS p95,
    quantiles[3] AS p99, max_memory_bytes, memory_total_bytes, idle_memory_bytes,
    arraySort(arrayMap(source -> toString(source), sources)) AS sources
FROM by_stream
INNER JOIN (SELECT DISTINCT holder, cluster, allocation_id, device_id, partition_id FROM spoken) AS holders USING (holder)
ORDER BY cluster, allocation_id, device_id, partition_id, covered_ms DESC, named DESC
LIMIT 1 BY cluster, allocation_id, device_id, partition_id
