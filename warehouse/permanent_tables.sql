-- One row: a permanent table or view. Temporary working tables are in memory and left out.
SELECT name
FROM system.tables
WHERE database = currentDatabase() AND engine NOT IN ('Memory', 'Set') AND NOT is_temporary
    AND name NOT LIKE 'staged\_%' AND name NOT LIKE '.%' AND NOT match(name, '^close_[0-9]+_')
ORDER BY name
