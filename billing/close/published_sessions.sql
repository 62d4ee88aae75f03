-- One row: the fingerprint of the sessions that ended in some months and were shorter than the minimum (as minimum.sql of
-- invoices takes them), by the allocations that the last close published.
-- Params:  starts_ms, ends_ms Array(Int64): the months; minimum_ms.
SELECT sum(cityHash64(cluster, allocation_id, first_ms, last_ms)) AS content
FROM
(
    SELECT cluster, allocation_id, toUnixTimestamp64Milli(min(start_at)) AS first_ms,
        assumeNotNull(toUnixTimestamp64Milli(max(end_at))) AS last_ms
    FROM allocations
    GROUP BY cluster, allocation_id
    HAVING countIf(end_at IS NULL) = 0
)
WHERE last_ms > first_ms AND last_ms - first_ms < {minimum_ms:Int64}
    AND arrayExists((start, end) -> last_ms > start AND last_ms <= end, {starts_ms:Array(Int64)}, {ends_ms:Array(Int64)})
