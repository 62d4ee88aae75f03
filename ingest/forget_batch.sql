-- Takes what there is of a batch out of a table.
-- $$table.   Parameter: batch UInt64.
DELETE FROM $table WHERE batch = {batch:UInt64}
