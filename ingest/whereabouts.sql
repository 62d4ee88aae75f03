-- One row: the current location of a device, from its newest row; removed devices have none.
-- Traps:   of two rows of one instant the worse state counts, as in the books.
-- Parameters: devices Array(String).
SELECT device_id, last.1 AS cluster, last.2 AS node, last.3 AS model, last.4 AS pool, last.5 AS units, last.6 AS state
FROM
(
    SELECT device_id, argMax((cluster, node, model, pool, units, toString(state)), (ts, state, units, model, pool, node)) AS last
    FROM devices
    WHERE device_id IN {devices:Array(String)}
    GROUP BY device_id
)
WHERE state != 'removed'
