-- One row: a chained table and its content columns (all but those of the chain itself), by name, with their types.
-- Parameters: tables, link Array(String).
SELECT table, arraySort(groupArray((name, type))) AS columns
FROM system.columns
WHERE database = currentDatabase() AND has({tables:Array(String)}, table) AND NOT has({link:Array(String)}, name)
GROUP BY table
