-- One row: a view that runs with rights other than its reader's. (Materialized views are left out: nobody reads them.)
SELECT name
FROM system.tables
WHERE database = currentDatabase() AND engine = 'View' AND definer != ''
ORDER BY name
