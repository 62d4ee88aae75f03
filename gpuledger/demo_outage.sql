-- One row: a device of the node that cost its holders most in some hours that begin at a multiple of as many, in UTC; with
-- the tenants that held any of the node then.
-- Shape:   only hours in all of which it was held; none if there are none.
-- Params:  start, end: of the month; hours.
WITH
    dearest AS
    (
        SELECT
            cluster, node, toStartOfInterval(charge_period_start, toIntervalHour({hours:UInt32}), 'UTC') AS start_at,
            arraySort(groupUniqArray(tenant)) AS tenants
        FROM v_charges
        WHERE charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_end <= {end:DateTime64(3, 'UTC')}
            AND tenant != ''
        GROUP BY cluster, node, start_at
        HAVING uniqExact(toStartOfHour(charge_period_start)) = {hours:UInt32}
            AND start_at >= {start:DateTime64(3, 'UTC')} AND start_at + toIntervalHour({hours:UInt32}) <= {end:DateTime64(3, 'UTC')}
        ORDER BY sum(billed_cost) DESC, start_at, node
        LIMIT 1
    )
SELECT
    o.start_at AS start_at, o.start_at + toIntervalHour({hours:UInt32}) AS end_at, o.tenants AS tenants,
    d.cluster AS cluster, d.node AS node, d.device_id AS device_id,
    argMax((d.vendor, d.model, d.memory_bytes, d.units, d.pool), d.ts) AS newest,
    newest.1 AS vendor, newest.2 AS model, newest.3 AS memory_bytes, newest.4 AS units, newest.5 AS pool
FROM devices AS d
INNER JOIN dearest AS o ON d.cluster = o.cluster AND d.node = o.node
WHERE d.ts <= o.start_at
GROUP BY start_at, end_at, tenants, cluster, node, device_id
HAVING argMax(toString(d.state), d.ts) = 'available'
ORDER BY device_id
