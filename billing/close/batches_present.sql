-- One row: a batch that is acknowledged now; or 0, rows that somebody inserted by hand, outside of any batch.
INSERT INTO {batches:Identifier}
SELECT batch FROM ingest_batches
UNION DISTINCT
SELECT toUInt64(0) AS batch
