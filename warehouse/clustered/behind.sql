-- One row: a table of which the node that is asked may lack what other nodes have written: entries of its log in Keeper
-- that it has not read or not followed yet. A table that has lost Keeper is one, too: to wait for it says so.
-- Traps:   a table that nobody wrote to is one, too, and costs nothing to wait for.
SELECT table
FROM system.replicas
WHERE database = currentDatabase() AND NOT match(table, '^close_[0-9]+_')
    AND (queue_size > 0 OR log_pointer <= log_max_index OR is_readonly OR is_session_expired OR zookeeper_exception != '')
ORDER BY table
