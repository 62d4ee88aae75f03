-- The batches that are acknowledged now and that the close which this one follows did not read; their hours are not asked.
-- Batch 0 is always read: rows that somebody inserted by hand, of no batch.
-- $$read: a SELECT of the batches that it read, with its params (billing.close.facts).
INSERT INTO {fresh:Identifier} (batch, is_of_samples)
SELECT batch, batch != 0
FROM (SELECT batch FROM ingest_batches UNION DISTINCT SELECT toUInt64(0) AS batch)
WHERE batch NOT IN ($read)
