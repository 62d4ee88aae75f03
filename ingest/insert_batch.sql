-- Writes the good rows of a batch.
-- $$table, $$columns, $$staged (the batch).   Parameter: batch UInt64.
INSERT INTO $table ($columns, batch) SELECT $columns, {batch:UInt64} FROM $staged
