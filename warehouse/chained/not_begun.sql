-- One row: a table that has a chain's columns but no chain yet, and whether it has rows.
-- Parameters: tables Array(String).
SELECT name, total_rows > 0 AS filled
FROM system.tables
WHERE database = currentDatabase() AND has({tables:Array(String)}, name)
    AND name IN (SELECT table FROM system.columns WHERE database = currentDatabase() AND name = 'digest')
    AND name NOT IN (SELECT chain FROM chain_heads)
ORDER BY name
