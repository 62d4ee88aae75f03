-- Removes a batch's rows from a table.
-- $$table.   Parameter: batch UInt64.
DELETE FROM $table WHERE batch = {batch:UInt64}
