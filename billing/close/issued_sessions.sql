-- One row: the fingerprint of the sessions that ended in some months and were shorter than the minimum (as minimum.sql of
-- invoices takes them).
-- Params:  starts_ms, ends_ms Array(Int64): the months; minimum_ms; forever.   $$claims: a SELECT of those that are believed.
SELECT sum(cityHash64(cluster, allocation_id, first_ms, last_ms)) AS content
FROM
(
    SELECT cluster, allocation_id, min(start_ms) AS first_ms, max(end_ms) AS last_ms
    FROM ($claims)
    GROUP BY cluster, allocation_id
)
WHERE last_ms > first_ms AND last_ms - first_ms < {minimum_ms:Int64}
    AND arrayExists((start, end) -> last_ms > start AND last_ms <= end, {starts_ms:Array(Int64)}, {ends_ms:Array(Int64)})
