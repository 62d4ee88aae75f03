-- One row: a day of a zone with closed hours, and a fingerprint of them and of the runs whose entries are in force.
-- Parameters: zone String (IANA name)
SELECT day, sum(cityHash64(hour, run)) AS content
FROM
(
    SELECT
        hour, argMax(c.run, c.checked_by) AS run,
        arrayJoin(arrayDistinct([
            toDateTime(dateTrunc('day', hour, {zone:String}), 'UTC'),
            toDateTime(dateTrunc('day', hour + INTERVAL 3599 SECOND, {zone:String}), 'UTC')])) AS day
    FROM closed_hours AS c
    GROUP BY hour
)
GROUP BY day
