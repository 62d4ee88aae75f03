-- One row: a table or view of this database, and the statement that makes it.
SELECT name, engine, engine_full, create_table_query AS create
FROM system.tables
WHERE database = currentDatabase() AND (engine = 'View' OR engine LIKE '%MergeTree')
