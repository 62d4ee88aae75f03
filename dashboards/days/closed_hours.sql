-- One row: all closed hours in order, and the days whose sums still hold. Times are Unix seconds.
-- hours: (start of the hour, run whose entries are in force, start of the zone's day in which it begins, and of that in which
-- it ends).   days: (start, end, version of its sums).   measured: (start of an hour whose devices were measured, fingerprint of its facts).
-- Parameters: zone String (IANA name)
SELECT
    (
        SELECT arraySort(groupArray((
            toUnixTimestamp(hour), run, toUnixTimestamp(dateTrunc('day', hour, {zone:String})),
            toUnixTimestamp(dateTrunc('day', hour + INTERVAL 3599 SECOND, {zone:String})))))
        FROM (SELECT hour, run FROM closed_hours FINAL WHERE has_facts)
    ) AS hours,
    (
        SELECT arraySort(groupArray((toUnixTimestamp(day), toUnixTimestamp(toTimeZone(day, {zone:String}) + INTERVAL 1 DAY), version)))
        FROM summed_days FINAL
        WHERE zone = {zone:String} AND (day, content) IN (SELECT day, content FROM ({contents}))
    ) AS days,
    (
        SELECT groupArray((toUnixTimestamp(hour), inputs))
        FROM device_hours
        WHERE cluster = '' AND device_id = ''
            AND (hour, inputs) IN (SELECT hour, argMax(c.inputs, c.checked_by) FROM closed_hours AS c GROUP BY hour)
    ) AS measured
