-- One row: a column of a view, in its order.
-- Params:  views Array(String) = their names.
SELECT c.table AS view, t.comment AS view_comment, c.name AS name, c.type AS type, c.comment AS comment
FROM system.columns AS c
INNER JOIN system.tables AS t ON c.database = t.database AND c.table = t.name
WHERE c.database = currentDatabase() AND has({views:Array(String)}, c.table)
ORDER BY c.table, c.position
