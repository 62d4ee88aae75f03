-- Writes the JSON lines of a batch into their table.
-- $$table, $$columns, $$values (of the columns), $$structure (of the lines).   Parameter: batch UInt64.
INSERT INTO $table ($columns, batch)
SELECT $values, {batch:UInt64}
FROM input('$structure')
FORMAT JSONEachRow
