-- One row: an hour in which the device's power or memory was measured, in order; NULL: not reported.
-- memory_bytes: of everybody on it; power_watts: of the whole device. From the hourly sums that are kept at ingest.
-- Parameters: device String; start, end DateTime64(3) (UTC)
SELECT
    hour,
    max(watts) AS power_watts,
    sumOrNull(bytes) AS memory_bytes
FROM
(
    SELECT
        hour, stream,
        sum(h.powers) / nullIf(sum(h.powered), 0) / 1e6 AS watts,
        sum(h.memories) / nullIf(sum(h.sized), 0) * (sum(h.sized) / 60) AS bytes
    FROM stream_hours AS h
    WHERE hour >= {start:DateTime64(3,'UTC')} AND hour < {end:DateTime64(3,'UTC')}
        AND stream GLOBAL IN (
            SELECT DISTINCT cityHash64(cluster, device_id, '', arrayJoin(['', workload_id]))
            FROM allocations
            WHERE device_id = {device:String}
        )
    GROUP BY hour, stream
)
GROUP BY hour
ORDER BY hour
