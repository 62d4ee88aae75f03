-- One row: a view for analysts. comment: what one row of it is; columns: (name, type, comment), in order.
SELECT
    c.table AS view,
    any(t.comment) AS comment,
    groupArray((c.name, c.type, c.comment)) AS columns
FROM (SELECT * FROM system.columns WHERE database = currentDatabase() AND startsWith(table, 'v_') ORDER BY position) AS c
INNER JOIN (SELECT name, comment FROM system.tables WHERE database = currentDatabase()) AS t ON c.table = t.name
GROUP BY view
ORDER BY view
