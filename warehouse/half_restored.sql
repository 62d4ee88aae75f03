-- One row: the table of samples, which no database has before its table of migrations, unless a restore made it.
SELECT name
FROM system.tables
WHERE database = currentDatabase() AND name = 'samples'
