-- One row: how many hours of a period are closed.
-- Parameters: start, end DateTime64(3) (UTC, [start, end))
SELECT uniqExact(hour) AS hours
FROM closed_hours
WHERE hour > {start:DateTime64(3,'UTC')} - INTERVAL 1 HOUR AND hour < {end:DateTime64(3,'UTC')}
