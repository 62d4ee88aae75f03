-- One row: the comment of the table of migrations, which says of which cluster the store is.
SELECT comment
FROM system.tables
WHERE database = currentDatabase() AND name = 'schema_migrations'
