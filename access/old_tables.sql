-- One row: a table of versions before that is still there. source: names this very table, and no later one of its name.
-- Params:  names Array(String).
SELECT name, if(toString(uuid) = '00000000-0000-0000-0000-000000000000', metadata_path, toString(uuid)) AS source
FROM system.tables
WHERE database = currentDatabase() AND has({names:Array(String)}, name)
ORDER BY name
