-- The batches that are acknowledged now and that the close which this one follows did not read.
-- Batch 0 is always read: rows that somebody inserted by hand, of no batch.
-- Params:  last, others: the rows that tell what that one read (billing.close.facts).
INSERT INTO {fresh:Identifier}
SELECT batch
FROM (SELECT batch FROM ingest_batches UNION DISTINCT SELECT toUInt64(0) AS batch)
WHERE batch NOT IN
(
    SELECT arrayJoin(batches) FROM close_batches WHERE run <= {last:UInt64} AND run NOT IN {others:Array(UInt64)}
)
