-- One row: a table or view that is there for good; what a command works with meanwhile lies in memory.
SELECT name
FROM system.tables
WHERE database = currentDatabase() AND engine NOT IN ('Memory', 'Set') AND NOT is_temporary
    AND name NOT LIKE 'staged\_%' AND name NOT LIKE '.%' AND NOT match(name, '^close_[0-9]+_')
ORDER BY name
