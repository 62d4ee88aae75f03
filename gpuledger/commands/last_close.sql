-- One row: the close that finished last.
SELECT run, finished_at, closed_until, hours_checked, hours_changed, rate_card
FROM close_runs FINAL
ORDER BY run DESC
LIMIT 1
