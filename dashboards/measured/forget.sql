-- What was measured before the facts of an hour changed, and of hours that lie too far back to be measured again.
ALTER TABLE device_hours DELETE
WHERE hour <= (SELECT max(hour) FROM closed_hours) - INTERVAL 63 DAY
    OR (hour, inputs) NOT IN (SELECT hour, argMax(c.inputs, c.checked_by) FROM closed_hours AS c GROUP BY hour)
