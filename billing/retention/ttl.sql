-- One row: a table whose rows the engine removes, and after how many days.
SELECT name, toUInt32OrNull(extract(create_table_query, ' TTL ingested_on \\+ toIntervalDay\\((\\d+)\\)')) AS days
FROM system.tables
WHERE database = currentDatabase() AND name IN {tables:Array(String)}
