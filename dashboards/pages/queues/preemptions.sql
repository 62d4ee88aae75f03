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
    followers AS
    (
        SELECT cluster, gone.1 AS allocation_id, gone.2 AS ts, argMin(next.2, next.1) AS tenant
        FROM
        (
            SELECT
                cluster, gone,
                arrayMin(arrayFilter(
                    one -> one.1 >= gone.2 AND one.1 < gone.2 + INTERVAL 5 MINUTE AND one.3 != gone.1, placed)) AS next
            FROM
            (
                SELECT
                    cluster, device_id,
                    groupArrayIf((toString(allocation_id), assumeNotNull(end_at)), is_lost AND end_at IS NOT NULL) AS left,
                    groupArrayIf((start_at, toString(tenant), toString(allocation_id)), is_later) AS placed
                FROM
                (
                    SELECT
                        cluster, device_id, allocation_id, tenant, start_at, end_at,
                        (cluster, allocation_id) IN (SELECT cluster, allocation_id FROM lost) AS is_lost,
                        start_at >= {start:DateTime64(3,'UTC')} AND start_at < {end:DateTime64(3,'UTC')} + INTERVAL 5 MINUTE AS is_later
                    FROM allocations
                )
                WHERE is_lost OR is_later
                GROUP BY cluster, device_id
                HAVING notEmpty(left)
            )
            ARRAY JOIN left AS gone
        )
        WHERE next.3 != ''
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
