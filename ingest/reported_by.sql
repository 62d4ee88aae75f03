-- One row: an allocation that was reported before, and by whom.   Parameters: allocations Array(String).
SELECT cluster, allocation_id, groupUniqArray(sender) AS senders
FROM
(
    SELECT DISTINCT cluster, allocation_id, batch FROM events WHERE allocation_id IN {allocations:Array(String)}
) AS reported
INNER JOIN
(
    SELECT DISTINCT batch, sender FROM ingest_batches
    WHERE record_type = 'events'
        AND batch IN (SELECT batch FROM events WHERE allocation_id IN {allocations:Array(String)})
) AS batches ON reported.batch = batches.batch
GROUP BY cluster, allocation_id
