-- One row: a device of the period, by pool, node and name.
-- Units: GPU-hours; price: list price of a GPU-hour on average (NULL: none is known). state: as last told before the end.
-- errors: findings of at least a warning in the period.
-- Parameters: those of ({days}); device String, empty: all
SELECT
    d.cluster AS cluster, d.device_id AS device_id, d.node AS node, d.model AS model, d.pool AS pool, d.device_units AS device_units,
    d.used AS used, d.idle AS idle, d.unmetered AS unmetered, d.unallocated AS unallocated, d.unavailable AS unavailable,
    d.price AS price, d.list_cost AS list_cost, d.unallocated_cost AS unallocated_cost,
    s.state AS state, f.errors AS errors, f.last_error AS last_error
FROM
(
    SELECT
        cluster, device_id,
        any(l.node) AS node, any(l.model) AS model, any(l.pool) AS pool, max(l.device_units) AS device_units,
        sum(l.used) AS used,
        sum(l.idle) AS idle,
        sum(l.unmetered) AS unmetered,
        sum(l.unallocated) AS unallocated,
        sum(l.unavailable) AS unavailable,
        sum((l.allocated + l.unallocated + l.unavailable) * l.price)
            / nullIf(sumIf(l.allocated + l.unallocated + l.unavailable, l.price IS NOT NULL), 0) AS price,
        sum(l.list_cost) AS list_cost,
        sum(l.unallocated * l.price) AS unallocated_cost
    FROM ({days}) AS l
    WHERE {device:String} = '' OR device_id = {device:String}
    GROUP BY cluster, device_id
) AS d
LEFT JOIN
(
    SELECT cluster, device_id, argMax(toString(v.state), v.ts) AS state
    FROM devices AS v
    WHERE v.ts < {end:DateTime64(3,'UTC')}
    GROUP BY cluster, device_id
) AS s ON d.cluster = s.cluster AND d.device_id = s.device_id
LEFT JOIN
(
    SELECT cluster, device_id, count() AS errors, argMax(finding, ts) AS last_error
    FROM findings FINAL
    WHERE severity >= 'warning' AND ts >= {start:DateTime64(3,'UTC')} AND ts < {end:DateTime64(3,'UTC')}
    GROUP BY cluster, device_id
) AS f ON d.cluster = f.cluster AND d.device_id = f.device_id
ORDER BY pool, node, device_id
