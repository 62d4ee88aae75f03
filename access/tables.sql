-- One row: a table of this database that holds rows, and whether it has a column `tenant`.
SELECT
    name,
    name IN (SELECT table FROM system.columns WHERE database = currentDatabase() AND name = 'tenant') AS has_tenant
FROM system.tables
WHERE database = currentDatabase() AND engine NOT LIKE '%View'
ORDER BY name
