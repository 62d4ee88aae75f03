-- One row: an allocation of these that the last close knows from before an instant. doubtful: what is reported of it later may
-- change what was, for its end is estimated, or it was refused as long as nothing else is reported.
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
