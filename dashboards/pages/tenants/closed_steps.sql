-- One row: a day or hour of the billing zone in which something is closed, in order: there what nobody held is 0.
-- Parameters: start, end DateTime64(3) (UTC, [start, end)); zone String; grain String ('day' | 'hour')
SELECT DISTINCT dateTrunc({grain:String}, hour, {zone:String}) AS step
FROM closed_hours
WHERE hour > {start:DateTime64(3,'UTC')} - INTERVAL 1 HOUR AND hour < {end:DateTime64(3,'UTC')}
ORDER BY step
