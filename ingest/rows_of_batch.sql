-- One row: a row of a batch.
-- $$table, $$columns.   Parameter: batch UInt64.
SELECT $columns
FROM $table
WHERE batch = {batch:UInt64}
ORDER BY ALL
