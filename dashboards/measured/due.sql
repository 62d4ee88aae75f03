-- One row: a closed hour of the last 62 days that are closed, of which the devices were not measured as it is now, and the
-- fingerprint of its facts; the newest first. at: in Unix seconds.
SELECT toUnixTimestamp(hour) AS at, inputs
FROM (SELECT hour, argMax(c.inputs, c.checked_by) AS inputs FROM closed_hours AS c GROUP BY hour)
WHERE hour > (SELECT max(hour) FROM closed_hours) - INTERVAL 62 DAY
    AND (hour, inputs) NOT IN (SELECT hour, inputs FROM device_hours WHERE cluster = '' AND device_id = '')
ORDER BY hour DESC
