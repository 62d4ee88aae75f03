-- One row: an allocation, of those asked about, that the last close has from before an instant. doubtful: a later report
-- may change its past, because its end is estimated, or because it was refused for lack of other reports.
-- Parameters: allocations Array(String), until DateTime64(3).
SELECT cluster, allocation_id, max(doubt) AS doubtful
FROM
(
    SELECT cluster, allocation_id, startsWith(estimated, 'end lost') AS doubt
    FROM allocations
    WHERE allocation_id IN {allocations:Array(String)} AND start_at < {until:DateTime64(3, 'UTC')}
    UNION ALL
    SELECT cluster, allocation_id, reason IN ('ends_before_it_starts', 'no_free_device') AS doubt
    FROM refused_claims
    WHERE allocation_id IN {allocations:Array(String)} AND start_at < {until:DateTime64(3, 'UTC')}
)
GROUP BY cluster, allocation_id
