-- Removes a batch's rows from a table.
-- $$table: the one with the rows (Store.altered).   Parameter: batch UInt64.
DELETE FROM $table WHERE batch = {batch:UInt64}
