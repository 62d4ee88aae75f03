-- One row: an hour (since the epoch) of which samples tell that no close has read, or the hour before, into which such may reach.
SELECT DISTINCT arrayJoin([ends_in, ends_in - 1]) AS hour
FROM
(
    SELECT toUInt32(intDiv(toUnixTimestamp(touched_hours.hour), 3600)) AS ends_in
    FROM touched_hours
    WHERE batch = 0 OR batch IN (SELECT batch FROM {fresh:Identifier})
)
