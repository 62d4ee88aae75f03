-- One row: the last run whose entries are in force in a period.
-- Params:  start, end = [start, end).
SELECT toString(max(run)) AS books_run
FROM (SELECT hour, argMax(run, checked_by) AS run FROM closed_hours GROUP BY hour)
WHERE hour > {start:DateTime64(3, 'UTC')} - INTERVAL 1 HOUR AND hour < {end:DateTime64(3, 'UTC')}
