-- One row: an hour in which something was measured of what the workload held, in order; columns as in samples.sql.
-- Of an hour that it held in part, all that was measured in it. From the hourly sums that are kept at ingest.
-- Parameters: workload String; start, end DateTime64(3) (UTC)
WITH
    held AS
    (
        SELECT DISTINCT
            device_id, cityHash64(cluster, device_id, partition_id, workload_id) AS own,
            cityHash64(cluster, device_id, partition_id, '') AS everybody, cityHash64(cluster, device_id, '', '') AS whole,
            cityHash64(cluster, device_id, '', workload_id) AS whole_own,
            toStartOfHour(start_at) AS since, ifNull(end_at, {end:DateTime64(3,'UTC')}) AS until
        FROM allocations
        WHERE workload_id = {workload:String} AND start_at < {end:DateTime64(3,'UTC')}
            AND ifNull(end_at, {end:DateTime64(3,'UTC')}) > {start:DateTime64(3,'UTC')}
    ),
    reported AS
    (
        SELECT
            hour, stream,
            sum(h.rates) / nullIf(sum(h.usable), 0) / 1e9 AS utilization,
            sum(h.memories) / nullIf(sum(h.sized), 0) AS bytes,
            sum(h.powers) / nullIf(sum(h.powered), 0) / 1e6 AS watts
        FROM stream_hours AS h
        WHERE hour >= {start:DateTime64(3,'UTC')} - INTERVAL 1 HOUR AND hour < {end:DateTime64(3,'UTC')}
            AND stream GLOBAL IN (SELECT arrayJoin([own, everybody, whole, whole_own]) FROM held)
        GROUP BY hour, stream
    ),
    by_device AS
    (
        SELECT
            t.hour AS step, h.device_id AS device_id, h.own AS place,
            anyIf(t.utilization, t.stream = h.own) AS own,
            anyIf(t.utilization, t.stream = h.everybody) AS everybody,
            anyIf(t.utilization, t.stream = h.whole_own) AS of_device,
            anyIf(t.bytes, t.stream = h.own) AS own_memory,
            anyIf(t.bytes, t.stream = h.everybody) AS all_memory,
            anyIf(t.bytes, t.stream = h.whole_own) AS device_memory,
            ifNull(anyIf(t.watts, t.stream = h.whole_own), anyIf(t.watts, t.stream = h.whole)) AS watts
        FROM held AS h
        CROSS JOIN reported AS t
        WHERE has([h.own, h.everybody, h.whole, h.whole_own], t.stream) AND t.hour >= h.since AND t.hour < h.until
        GROUP BY step, device_id, place
    )
SELECT
    step,
    avg(coalesce(own, everybody, of_device)) AS utilization,
    sum(coalesce(own_memory, all_memory, if(is_first, device_memory, NULL))) AS memory_bytes,
    sumOrNull(if(is_first, watts, NULL)) AS power_watts
FROM (SELECT *, row_number() OVER (PARTITION BY step, device_id ORDER BY place) = 1 AS is_first FROM by_device)
GROUP BY step
ORDER BY step
