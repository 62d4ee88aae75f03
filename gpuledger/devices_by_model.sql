-- How many devices of each model were ever known.
SELECT model, toUInt64(uniqExact(device_id)) AS devices
FROM devices
GROUP BY model
ORDER BY model
