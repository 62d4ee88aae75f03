-- One row: how many hours, whole or in part, of [start, end) are closed (as in billing/closed_count.sql).
-- Params:  start, end.
SELECT count() AS hours
FROM
(
    SELECT hour
    FROM closed_hours
    WHERE hour > toDateTime({start:DateTime64(3, 'UTC')}, 'UTC') - INTERVAL 1 HOUR AND hour < {end:DateTime64(3, 'UTC')}
    GROUP BY hour
    HAVING argMax(closed_hours.inputs, checked_by) != 0
)
