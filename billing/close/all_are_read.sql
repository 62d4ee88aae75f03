-- One row: whether all that was acknowledged before {fresh_ms:Int64} has been read: of what is acknowledged and of what was read
-- the numbers and the sums are the same, without what was acknowledged since then.
-- Traps:   sums wrap around. Of a batch that is acknowledged twice there may be two rows: then it says no.
-- Params:  since_ms: when closes named their batches that may have read such as were acknowledged since {fresh_ms:Int64}.
-- $$read: a condition on close_batches, of the closes that count, with its params (billing.close.facts).
WITH
    known AS
    (
        SELECT sum(length(batches) - countEqual(batches, 0)) AS number, sum(arraySum(batches)) AS total FROM close_batches WHERE $read
    ),
    before AS
    (
        SELECT count() AS number, sum(batch) AS total FROM ingest_batches WHERE ingested_at < fromUnixTimestamp64Milli({fresh_ms:Int64}, 'UTC')
    ),
    since AS
    (
        SELECT count() AS number, sum(batch) AS total
        FROM
        (
            SELECT DISTINCT batch
            FROM recent_batches
            WHERE ingested_at >= fromUnixTimestamp64Milli({fresh_ms:Int64}, 'UTC') AND batch IN
            (
                SELECT arrayJoin(batches)
                FROM close_batches
                WHERE $read AND run IN (SELECT run FROM close_named WHERE named_at >= fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC'))
            )
        )
    )
SELECT known.number = before.number + since.number AND known.total = before.total + since.total AS are_read
FROM known, before, since
