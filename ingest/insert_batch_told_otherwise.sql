-- Writes the good rows of a batch next to rows with the same key that were reported differently (column told_otherwise,
-- warehouse/migrations/0101_facts.sql).
-- $$table, $$columns, $$staged (the batch).   Parameter: batch UInt64.
INSERT INTO $table ($columns, batch, told_otherwise) SELECT $columns, {batch:UInt64}, {batch:UInt64} FROM $staged
