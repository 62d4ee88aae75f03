-- One row: a closed hour that overlaps a period, and the run whose entries are in force, in order. Times are Unix seconds.
-- Params:  start, end DateTime64(3) (UTC, [start, end)).
SELECT toUnixTimestamp(hour) AS at, argMax(c.run, c.checked_by) AS run
FROM closed_hours AS c
WHERE hour > {start:DateTime64(3,'UTC')} - INTERVAL 1 HOUR AND hour < {end:DateTime64(3,'UTC')}
GROUP BY hour
ORDER BY hour
