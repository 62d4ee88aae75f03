-- One row: a table of this database, or (without a name) another database, that a killed process left a day ago
-- or longer. Parameters: tables, databases String: regular expressions of their names.
-- Traps:   databases without a table have no time, and stay.
SELECT database, name
FROM system.tables
WHERE database = currentDatabase() AND match(name, {tables:String})
    AND metadata_modification_time < now() - INTERVAL 1 DAY
UNION ALL
SELECT database, '' AS name
FROM system.tables
WHERE database != currentDatabase() AND match(database, {databases:String})
GROUP BY database
HAVING max(metadata_modification_time) < now() - INTERVAL 1 DAY
