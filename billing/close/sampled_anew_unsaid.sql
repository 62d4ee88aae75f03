-- One row: as of sampled_anew.sql, of batches that do not record their hours: as many as there are in a week and more, if
-- nothing was closed for so long.
-- Params:  fresh: batches that no close has read.
SELECT DISTINCT arrayJoin([ends_in, ends_in - 1]) AS hour
FROM
(
    SELECT DISTINCT toUInt32(intDiv(toUnixTimestamp(hour), 3600)) AS ends_in
    FROM touched_hours
    WHERE batch GLOBAL IN (SELECT batch FROM {fresh:Identifier} WHERE is_of_samples AND empty(hours))
)
