-- One row: a step of time in which something was measured of what the workload held, in order.
-- utilization: mean of its devices (0-1), its own where it is reported, else of everybody on what it held, else its own on
--   the whole device, as of a time-slice; memory_bytes: the sum of its devices, likewise; power_watts: the sum of the whole devices,
--   whoever else is on them. NULL: not measured.
-- Parameters: workload String; start, end DateTime64(3) (UTC); seconds UInt32, the step
WITH
    held AS
    (
        SELECT
            cluster, device_id, partition_id,
            greatest(start_at, {start:DateTime64(3,'UTC')}) AS since,
            least(ifNull(end_at, {end:DateTime64(3,'UTC')}), {end:DateTime64(3,'UTC')}) AS until
        FROM allocations
        WHERE workload_id = {workload:String} AND start_at < {end:DateTime64(3,'UTC')}
            AND ifNull(end_at, {end:DateTime64(3,'UTC')}) > {start:DateTime64(3,'UTC')}
    ),
    by_device AS
    (
        SELECT
            toStartOfInterval(s.ts - INTERVAL 1 MILLISECOND, toIntervalSecond({seconds:UInt32}), 'UTC') AS step,
            s.device_id AS device_id,
            h.partition_id AS partition_id,
            avgOrNullIf(s.utilization, s.workload_id != '' AND s.partition_id = h.partition_id AND s.state <= 'idle') AS own,
            avgOrNullIf(s.utilization, s.workload_id = '' AND s.partition_id = h.partition_id AND s.state <= 'idle') AS everybody,
            avgOrNullIf(s.utilization, s.workload_id != '' AND s.partition_id = '' AND s.state <= 'idle') AS of_device,
            avgOrNullIf(s.memory_used_bytes, s.workload_id != '' AND s.partition_id = h.partition_id) AS own_memory,
            avgOrNullIf(s.memory_used_bytes, s.workload_id = '' AND s.partition_id = h.partition_id) AS all_memory,
            avgOrNullIf(s.memory_used_bytes, s.workload_id != '' AND s.partition_id = '') AS device_memory,
            avgOrNullIf(s.power_watts, s.partition_id = '') AS watts
        FROM
        (
            SELECT ts, cluster, device_id, partition_id, workload_id, state, utilization, memory_used_bytes, power_watts
            FROM samples
            WHERE (cluster, device_id) GLOBAL IN (SELECT cluster, device_id FROM held) AND has(['', {workload:String}], workload_id)
                AND ts > {start:DateTime64(3,'UTC')} AND ts <= {end:DateTime64(3,'UTC')}
        ) AS s
        INNER JOIN held AS h ON s.cluster = h.cluster AND s.device_id = h.device_id
        WHERE s.ts > h.since AND s.ts <= h.until
        GROUP BY step, device_id, partition_id
    )
SELECT
    step,
    avg(coalesce(own, everybody, of_device)) AS utilization,
    sum(coalesce(own_memory, all_memory, if(is_first, device_memory, NULL))) AS memory_bytes,
    sumOrNull(if(is_first, watts, NULL)) AS power_watts
FROM (SELECT *, row_number() OVER (PARTITION BY step, device_id ORDER BY partition_id) = 1 AS is_first FROM by_device)
GROUP BY step
ORDER BY step
