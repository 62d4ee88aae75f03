-- One row: an hour (since the epoch) that a close examines, and how many samples that it reads touch it.
-- $$touching: see touching.sql.
SELECT toUInt32(intDiv(toUnixTimestamp(touched_hours.hour), 3600)) AS hour, sum(rows) AS samples
FROM touched_hours
WHERE batch GLOBAL IN {batches:Identifier} AND $touching
GROUP BY hour
