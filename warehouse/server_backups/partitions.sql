-- One row: a part of a table that can be checked by itself.
SELECT DISTINCT table, partition_id AS id
FROM system.parts
WHERE database = currentDatabase() AND active
ORDER BY table, id
