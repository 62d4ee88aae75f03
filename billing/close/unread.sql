-- One row: how many acknowledged batches no close has read. Counts alone are read, of rows and of arrays.
-- Traps:   batch 0, which is never acknowledged, is among those that were read. A batch that is acknowledged twice may
--          count twice.
-- $$read: a condition on close_batches, of the closes that count, with its params (billing.close.facts).
SELECT (SELECT count() FROM ingest_batches) - (SELECT toInt64(sum(length(batches))) FROM close_batches WHERE $read) + 1 AS unread
