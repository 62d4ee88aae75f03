-- One row: how a replicated table, one that stands for those of all shards, or a view of this database was created,
-- tables first, views of their inserts last.
-- Traps:   those of a close that is running are its own.
SELECT create_table_query AS statement
FROM system.tables
WHERE database = currentDatabase()
    AND (engine LIKE 'Replicated%' OR engine IN ('View', 'MaterializedView')
        OR (engine = 'Distributed'
            AND concat(name, '_local') IN (SELECT name FROM system.tables WHERE database = currentDatabase())))
    AND NOT match(name, '^close_[0-9]+_') AND name NOT LIKE '.%'
ORDER BY engine LIKE '%View', engine = 'MaterializedView', name
