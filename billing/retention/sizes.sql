-- One row: how large a table is.
SELECT table AS name, toInt64(sum(rows)) AS rows, toInt64(sum(data_compressed_bytes)) AS bytes
FROM system.parts
WHERE database = currentDatabase() AND table IN {tables:Array(String)} AND active
GROUP BY table
