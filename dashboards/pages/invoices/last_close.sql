-- One row: when the last close finished that had something to close (UTC). NULL: none did.
SELECT maxOrNull(finished_at) AS at
FROM close_runs
