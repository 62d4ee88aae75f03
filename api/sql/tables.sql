-- One row: a table or view of this database, and whether it is a view that wants parameters.
SELECT name, match(create_table_query, '\\{\\w+:') AS is_parameterised
FROM system.tables
WHERE database = currentDatabase()
