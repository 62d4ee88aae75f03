-- One row: a table of this database that holds rows, and the folders of its active parts.
SELECT table, groupArray(path) AS paths
FROM system.parts
WHERE database = currentDatabase() AND active
GROUP BY table
