-- One row: a table or view of this database. reads: a view's own statement, empty for a table.
SELECT name, as_select AS reads
FROM system.tables
WHERE database = currentDatabase()
