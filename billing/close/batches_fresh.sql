-- One row: a batch that no close has read; or 0, rows that somebody inserted by hand, outside of any batch.
INSERT INTO {batches:Identifier}
SELECT batch FROM {fresh:Identifier}
UNION ALL
SELECT toUInt64(0) AS batch
