-- One row: how a table's engine was stated.
-- Parameter: name String.
SELECT engine_full
FROM system.tables
WHERE database = currentDatabase() AND name = {name:String}
