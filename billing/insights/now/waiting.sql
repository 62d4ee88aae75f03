-- One row: a job that waits at an instant, by queue and rank: submitted within 62 days before, and neither started nor over.
-- reason, message: why, as its source reported it last, at reported_at; '': it does not tell.   gpus, priority NULL: not reported.
-- rank of queued: its place in its queue, by priority and then by how long it waits; its scheduler may order otherwise. To
-- whoever sees some tenants only, among their jobs.   in_all: how many there are; {most} are shown.
-- waited_seconds: until that instant.
-- Traps:   to group events by a job's names in place of allocation_hash costs three times as much.
-- Parameters: start, end DateTime64(3) (UTC): the instant is end; tenants, projects, queues, clusters Array(String), empty:
--             all; workload, allocation String, empty: all; most UInt32
SELECT *, count() OVER () AS in_all
FROM
(
    SELECT
        cluster, allocation_id, since, reported_at,
        newest.1 AS workload_id, newest.2 AS tenant, newest.3 AS project, newest.4 AS queue, newest.5 AS priority,
        newest.6 AS gpus, newest.7 AS reason, newest.8 AS message,
        dateDiff('millisecond', since, {end:DateTime64(3,'UTC')}) / 1000 AS waited_seconds,
        row_number() OVER (PARTITION BY cluster, queue ORDER BY ifNull(priority, 0) DESC, since, allocation_id) AS rank,
        count() OVER (PARTITION BY cluster, queue) AS queued
    FROM
    (
        SELECT
            cluster, allocation_id,
            min(ts) AS since,
            max(ts) AS reported_at,
            argMax((toString(e.workload_id), toString(e.tenant), toString(e.project), toString(e.queue), e.priority, e.gpus,
                toString(e.reason), toString(e.message)), (ts, cityHash64(e.workload_id, e.tenant, e.project, e.queue, e.reason, e.message,
                    isNull(e.priority), ifNull(e.priority, 0), isNull(e.gpus), ifNull(e.gpus, 0)))) AS newest
        FROM visible_events AS e
        WHERE ts >= {start:DateTime64(3,'UTC')} - INTERVAL 62 DAY AND ts < {end:DateTime64(3,'UTC')}
            AND event = 'submitted'
            AND (cluster, allocation_id) IN
            (
                SELECT cluster, allocation_id
                FROM events
                WHERE allocation_hash IN
                (
                    SELECT allocation_hash
                    FROM events
                    WHERE ts >= {start:DateTime64(3,'UTC')} - INTERVAL 62 DAY AND ts < {end:DateTime64(3,'UTC')}
                        AND event IN ('submitted', 'started', 'finished', 'failed', 'cancelled', 'rejected')
                    GROUP BY allocation_hash
                    HAVING countIf(event != 'submitted') = 0
                )
            )
        GROUP BY cluster, allocation_id
    )
)
WHERE (empty({tenants:Array(String)}) OR has({tenants:Array(String)}, tenant))
    AND (empty({projects:Array(String)}) OR has({projects:Array(String)}, project))
    AND (empty({queues:Array(String)}) OR has({queues:Array(String)}, queue))
    AND (empty({clusters:Array(String)}) OR has({clusters:Array(String)}, cluster))
    AND ({workload:String} = '' OR workload_id = {workload:String})
    AND ({allocation:String} = '' OR allocation_id = {allocation:String})
ORDER BY queue, cluster, rank
LIMIT {most:UInt32}
