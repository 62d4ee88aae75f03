-- One row: a table that has rows.   Parameters: tables Array(String).
SELECT name
FROM system.tables
WHERE database = currentDatabase() AND has({tables:Array(String)}, name) AND total_rows > 0
