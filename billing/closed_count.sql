-- One row: how many hours of a period are closed. One that held something once, and nothing by later facts, is like one that never
-- did: it is none.
-- Params:  start, end = [start, end), whole hours.
SELECT count() AS closed
FROM
(
    SELECT hour
    FROM closed_hours
    WHERE hour >= {start:DateTime64(3, 'UTC')} AND hour < {end:DateTime64(3, 'UTC')}
    GROUP BY hour
    HAVING argMax(closed_hours.inputs, checked_by) != 0
)
