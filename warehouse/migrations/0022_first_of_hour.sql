-- Where in its hour a batch's first sample ends: one that ends before another of its stream, or with it, takes from what
-- that covers, and that may have begun in the hour before (billing/close/inputs.sql).
ALTER TABLE touched_hours
    ADD COLUMN IF NOT EXISTS first_ms UInt32 COMMENT 'how long after the hour began its first sample ends; 0: not told';

ALTER TABLE touched_hours_of_samples MODIFY QUERY
SELECT
    toStartOfHour(ts - INTERVAL 1 MILLISECOND) AS hour,
    batch,
    count() AS rows,
    max(toUInt64(greatest(0, toUnixTimestamp(hour) * 1000 - (toUnixTimestamp64Milli(ts) - interval_seconds * 1000)))) AS reach_ms,
    min(toUInt32(round(interval_seconds * 1000))) AS shortest_ms,
    max(toUInt32(round(interval_seconds * 1000))) AS longest_ms,
    min(toUInt32(toUnixTimestamp64Milli(ts) - toUnixTimestamp(hour) * 1000)) AS first_ms
FROM samples
GROUP BY hour, batch;
