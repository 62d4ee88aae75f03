-- One row: when the last close finished that had something to do (UTC); one that finds nothing leaves no trace. NULL: none did.
SELECT maxOrNull(finished_at) AS at
FROM close_runs
