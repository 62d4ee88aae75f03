-- One row: a day or hour of the billing zone in which something is closed, in order, and how many of its hours are.
-- Parameters: start, end DateTime64(3) (UTC, [start, end)); zone String; grain String ('day' | 'hour')
SELECT dateTrunc({grain:String}, hour, {zone:String}) AS step, uniqExact(hour) AS hours_closed
FROM closed_hours
WHERE hour > {start:DateTime64(3,'UTC')} - INTERVAL 1 HOUR AND hour < {end:DateTime64(3,'UTC')}
GROUP BY step
ORDER BY step
