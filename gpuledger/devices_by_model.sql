-- One row: a model, and how many devices of it were ever known.
SELECT model, toUInt64(uniqExact(device_id)) AS devices
FROM devices
GROUP BY model
ORDER BY model
