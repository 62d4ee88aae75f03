-- One row: whether everything acknowledged before {fresh_ms:Int64} has been read: leaving out what was acknowledged since
-- then, acknowledged and read batches have the same count and the same sum.
-- Traps:   sums wrap around. A batch that is acknowledged twice may have two rows; then the answer is no.
-- Params:  since_ms: closes that named their batches since then may have read batches acknowledged since {fresh_ms:Int64}.
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
