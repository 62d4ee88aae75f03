-- One row: a batch that is acknowledged now and was not read by the close that this one follows; its hours are not looked
-- up. Batch 0 is always read: rows that somebody inserted by hand, outside of any batch.
-- $$read: a condition on close_batches, of the closes that count, with its params (billing.close.facts).
INSERT INTO {fresh:Identifier} (batch, is_of_samples)
SELECT batch, batch != 0
FROM (SELECT batch FROM ingest_batches UNION DISTINCT SELECT toUInt64(0) AS batch)
WHERE batch NOT IN (SELECT arrayJoin(batches) FROM close_batches WHERE $read)
