-- One row: a device of the period, by pool, node and name.
-- Units: GPU-hours; price: list price of a GPU-hour on average (NULL: none is known).
-- Parameters: those of ({days}); device String, empty: all
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
    sum(l.unallocated * l.price) AS unallocated_cost,
    sumIf(l.unallocated, l.price IS NULL) AS unallocated_unpriced
FROM ({days}) AS l
WHERE {device:String} = '' OR device_id = {device:String}
GROUP BY cluster, device_id
ORDER BY pool, node, device_id
