-- One row: how many rows of events and of batches there are.
SELECT (SELECT count() FROM events) AS events, (SELECT count() FROM ingest_batches) AS batches
