-- One row: the fingerprint of the hours that are closed.
SELECT sum(cityHash64(hour, newest)) AS hours
FROM (SELECT hour, argMax(tuple(run, inputs, content), checked_by) AS newest FROM closed_hours GROUP BY hour)
