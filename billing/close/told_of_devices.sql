-- One row: the hour (since the epoch) from which on device rows tell that no close has read; null: there are none.
SELECT intDiv(toUnixTimestamp64Milli(minOrNull(ts)), 3600000) AS hour
FROM devices
WHERE batch = 0 OR batch IN (SELECT batch FROM {fresh:Identifier})
