-- One row: when a session ended that is charged the minimum in one of two copies of the books and not in the other.
-- Params:  minimum_ms; closed_until = what ends later is not in the books yet.
-- $$before: the database of the other copy.
SELECT DISTINCT ended
FROM
(
    SELECT cluster, allocation_id, begun, ended
    FROM
    (
        SELECT cluster, allocation_id, min(start_at) AS begun, max(end_at) AS ended, countIf(end_at IS NULL) AS open
        FROM $before.allocations
        GROUP BY cluster, allocation_id
        UNION ALL
        SELECT cluster, allocation_id, min(start_at) AS begun, max(end_at) AS ended, countIf(end_at IS NULL) AS open
        FROM allocations
        GROUP BY cluster, allocation_id
    )
    WHERE open = 0 AND dateDiff('millisecond', begun, ended) < {minimum_ms:Int64} AND ended <= {closed_until:DateTime64(3, 'UTC')}
    GROUP BY cluster, allocation_id, begun, ended
    HAVING count() = 1
)
ORDER BY ended
