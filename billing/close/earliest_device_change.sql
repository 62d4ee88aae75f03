-- One row: the first hour (since the epoch) affected by unread device rows; null: there are none.
SELECT intDiv(toUnixTimestamp64Milli(minOrNull(ts)), 3600000) AS hour
FROM devices
WHERE batch = 0 OR batch IN (SELECT batch FROM {fresh:Identifier})
