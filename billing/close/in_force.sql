-- One row: an hour, the run whose entries are in force, and their fingerprint.
SELECT
    toUInt32(intDiv(toUnixTimestamp(hour), 3600)) AS hour,
    argMax(closed_hours.run, checked_by) AS run,
    argMax(closed_hours.content, checked_by) AS content
FROM closed_hours
WHERE closed_hours.hour >= toDateTime({first:UInt32} * 3600, 'UTC') AND closed_hours.hour <= toDateTime({last:UInt32} * 3600, 'UTC')
GROUP BY hour
