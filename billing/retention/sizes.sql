-- One row: how large a table is.
-- $$parts: those of the engine's tables.   Params:  database; tables: those with the rows.
SELECT table AS name, toInt64(sum(rows)) AS rows, toInt64(sum(data_compressed_bytes)) AS bytes
FROM $parts
WHERE database = {database:String} AND table IN {tables:Array(String)} AND active
GROUP BY table
