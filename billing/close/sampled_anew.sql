-- One row: an hour (since the epoch) with unread samples, or the hour before, into which those may reach.
-- Params:  fresh: batches that no close has read.
SELECT DISTINCT arrayJoin([ends_in, ends_in - 1]) AS hour
FROM
(
    SELECT toUInt32(intDiv(toUnixTimestamp(told), 3600)) AS ends_in
    FROM
    (
        SELECT arrayJoin(hours) AS told FROM {fresh:Identifier}
        UNION ALL
        SELECT hour AS told FROM touched_hours WHERE batch = 0
    )
)
