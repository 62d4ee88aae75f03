-- Names what a close reads: the batches that are acknowledged now and that the close which it follows did not read.
-- Params:  run; follows; last, others: the rows that tell what that one read (billing.close.facts).
INSERT INTO close_batches (run, follows, batches)
SELECT {run:UInt64}, {follows:UInt64}, groupArray(batch)
FROM ingest_batches
WHERE batch NOT IN
(
    SELECT arrayJoin(batches) FROM close_batches WHERE run <= {last:UInt64} AND run NOT IN {others:Array(UInt64)}
)
