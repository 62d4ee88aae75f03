-- One row: a tenant whose jobs were preempted in the period, and the tenant that got their place.
-- by: the tenant of the job reported as the preemptor (the event's actor), else of the first one placed on one of its GPUs
-- within five minutes; NULL: none was reported, and none was placed. named: it was reported.   taken: number of
-- preemptions.
-- Parameters: start, end DateTime64(3) (UTC); tenants, projects, queues, clusters Array(String), empty: all
WITH
    lost AS
    (
        SELECT DISTINCT cluster, allocation_id, ts, tenant, actor
        FROM events
        WHERE event = 'preempted' AND ts >= {start:DateTime64(3,'UTC')} AND ts < {end:DateTime64(3,'UTC')}
            AND (empty({tenants:Array(String)}) OR has({tenants:Array(String)}, tenant))
            AND (empty({projects:Array(String)}) OR has({projects:Array(String)}, project))
            AND (empty({queues:Array(String)}) OR has({queues:Array(String)}, queue))
            AND (empty({clusters:Array(String)}) OR has({clusters:Array(String)}, cluster))
    ),
    actors AS
    (
        SELECT cluster, workload_id, any(tenant) AS tenant
        FROM events
        WHERE ts >= {start:DateTime64(3,'UTC')} - INTERVAL 62 DAY AND ts < {end:DateTime64(3,'UTC')}
            AND (cluster, workload_id) IN (SELECT cluster, actor FROM lost WHERE actor != '')
        GROUP BY cluster, workload_id
    ),
    places AS
    (
        SELECT l.cluster AS cluster, l.allocation_id AS allocation_id, l.ts AS ts, a.device_id AS device_id
        FROM lost AS l
        INNER JOIN
        (
            SELECT cluster, allocation_id, device_id, end_at FROM allocations
            WHERE (cluster, allocation_id) IN (SELECT cluster, allocation_id FROM lost)
        ) AS a ON l.cluster = a.cluster AND l.allocation_id = a.allocation_id AND l.ts = a.end_at
    ),
    followers AS
    (
        SELECT p.cluster AS cluster, p.allocation_id AS allocation_id, p.ts AS ts, argMin(n.tenant, n.start_at) AS tenant
        FROM places AS p
        INNER JOIN
        (
            SELECT cluster, device_id, allocation_id, tenant, start_at
            FROM allocations
            WHERE start_at >= {start:DateTime64(3,'UTC')} AND start_at < {end:DateTime64(3,'UTC')} + INTERVAL 5 MINUTE
                AND (cluster, device_id) IN (SELECT cluster, device_id FROM places)
        ) AS n ON p.cluster = n.cluster AND p.device_id = n.device_id
        WHERE n.start_at >= p.ts AND n.start_at < p.ts + INTERVAL 5 MINUTE AND n.allocation_id != p.allocation_id
        GROUP BY cluster, allocation_id, ts
    )
SELECT
    l.tenant AS victim,
    multiIf(w.workload_id != '', toNullable(toString(w.tenant)), f.allocation_id != '', toString(f.tenant), NULL) AS by,
    count() AS taken,
    countIf(w.workload_id != '') AS named
FROM lost AS l
LEFT JOIN actors AS w ON l.cluster = w.cluster AND l.actor = w.workload_id
LEFT JOIN followers AS f ON l.cluster = f.cluster AND l.allocation_id = f.allocation_id AND l.ts = f.ts
GROUP BY victim, by
ORDER BY taken DESC, victim, by
