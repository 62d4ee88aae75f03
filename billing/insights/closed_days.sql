-- One row: a day of the billing zone with a closed hour in it, and how many are. An hour that a local midnight cuts
-- (zones that are not whole hours from UTC) counts on both days.
-- Params:  timezone; start, end = [start, end).
SELECT toString(day) AS day, uniqExact(hour) AS hours
FROM
(
    SELECT hour, arrayJoin([toDate(hour, {timezone:String}), toDate(hour + 3599, {timezone:String})]) AS day
    FROM closed_hours
    WHERE hour >= toDateTime({start:DateTime64(3, 'UTC')}, 'UTC') - INTERVAL 1 HOUR AND hour < {end:DateTime64(3, 'UTC')}
)
GROUP BY day
ORDER BY day
