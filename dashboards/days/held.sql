-- One row: the whole days of a zone within a period whose sums still hold, their versions, and the closed hours of the
-- period that lie in any other day.
-- Parameters: start, end DateTime64(3) (UTC, [start, end)); zone String (IANA name)
WITH
    (
        SELECT (groupArray(day), groupUniqArray(version))
        FROM summed_days FINAL
        WHERE zone = {zone:String} AND day >= {start:DateTime64(3,'UTC')}
            AND toTimeZone(day, {zone:String}) + INTERVAL 1 DAY <= {end:DateTime64(3,'UTC')}
            AND (day, content) IN ({contents})
    ) AS summed
SELECT
    summed.1 AS days,
    summed.2 AS versions,
    (
        SELECT groupUniqArray(hour)
        FROM closed_hours
        WHERE hour > {start:DateTime64(3,'UTC')} - INTERVAL 1 HOUR AND hour < {end:DateTime64(3,'UTC')}
            AND NOT (has(summed.1, toDateTime(dateTrunc('day', hour, {zone:String}), 'UTC'))
                AND has(summed.1, toDateTime(dateTrunc('day', hour + INTERVAL 3599 SECOND, {zone:String}), 'UTC')))
    ) AS other_hours
