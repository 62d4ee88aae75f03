-- One row: how far the books are closed, when that was last looked at, and what is in quarantine.
-- closed_until, last_close_at: NULL = never.
SELECT
    (SELECT maxOrNull(hour) + INTERVAL 1 HOUR FROM closed_hours) AS closed_until,
    (SELECT maxOrNull(finished_at) FROM close_runs) AS last_close_at,
    (SELECT count() FROM quarantine FINAL) AS quarantined
