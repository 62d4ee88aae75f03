-- One row: a view that runs with the rights of somebody else than who reads it. (Those that write what follows from an
-- insert are none: nobody reads them.)
SELECT name
FROM system.tables
WHERE database = currentDatabase() AND engine = 'View' AND definer != ''
ORDER BY name
