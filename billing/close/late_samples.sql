-- One row: an allocation whose end was lost when the next holder came, of which unread samples from before the horizon may say
-- that it lived longer.
-- Params:  lost: what the books say of such an end (billing.close.resolve).   since, until: within which these samples end.
INSERT INTO {late:Identifier}
SELECT DISTINCT allocation_hash AS allocation
FROM allocations
WHERE estimated = {lost:String} AND (cluster, device_id, workload_id) IN
(
    SELECT DISTINCT cluster, device_id, workload_id
    FROM samples
    WHERE ts > {since:DateTime64(3, 'UTC')} AND ts <= {until:DateTime64(3, 'UTC')} AND workload_id != ''
        AND (batch = 0 OR batch GLOBAL IN (SELECT batch FROM {fresh:Identifier}))
)
