-- One row: a day of the billing zone, or an hour, in which something is closed, in order, and how many hours of it are: of an
-- hour over midnight (in zones of half hours) and at the period's ends the part that lies in it.
-- Parameters: start, end DateTime64(3) (UTC, [start, end)); zone String; grain String ('day' | 'hour')
SELECT part.1 AS step, sum(dateDiff('second', part.2, part.3)) / 3600 AS hours_closed
FROM
(
    SELECT DISTINCT
        hour,
        toDateTime(dateTrunc('day', hour, {zone:String}), 'UTC') AS day,
        toDateTime(dateTrunc('day', hour + INTERVAL 3599 SECOND, {zone:String}), 'UTC') AS next_day,
        toDateTime({start:DateTime64(3,'UTC')}, 'UTC') AS since,
        toDateTime({end:DateTime64(3,'UTC')}, 'UTC') AS until
    FROM closed_hours
    WHERE hour > {start:DateTime64(3,'UTC')} - INTERVAL 1 HOUR AND hour < {end:DateTime64(3,'UTC')}
)
ARRAY JOIN arrayMap(
    one -> (one.1, greatest(one.2, since), least(one.3, until)),
    multiIf(
        {grain:String} = 'hour', [(hour, hour, hour + INTERVAL 1 HOUR)],
        day = next_day, [(day, hour, hour + INTERVAL 1 HOUR)],
        [(day, hour, next_day), (next_day, next_day, hour + INTERVAL 1 HOUR)])) AS part
WHERE part.2 < part.3
GROUP BY step
ORDER BY step
