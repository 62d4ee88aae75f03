-- One row: a queue in which something was waiting in the period, the most waiting first.
-- waiting: jobs still waiting at its end, waiting_gpus: what they ask for (NULL: none of them says); reasons, jobs: how many
--          of them for each reason told; oldest_seconds, oldest: how long the first of them waits, and its workload.
-- started: jobs that began in it; p50, p95, p99: seconds that they had waited (NULL: none began).
-- bound: seconds, of the strictest objective for all tenants of the queue; late: jobs that began later than that, or wait
--          longer at the end (NULL: no objective).
-- Shape:   as on the overview: whose a job is say the books, of jobs never placed its source; submitted within 62 days.
-- Parameters: start, end DateTime64(3) (UTC); tenants, projects, queues, clusters Array(String), empty: all
WITH
    (empty({tenants:Array(String)}) AND empty({projects:Array(String)})) AS everybody,
    placed AS
    (
        SELECT
            cluster, allocation_id,
            (empty({tenants:Array(String)}) OR has({tenants:Array(String)}, argMin(tenant, start_at)))
                AND (empty({projects:Array(String)}) OR has({projects:Array(String)}, argMin(project, start_at))) AS wanted
        FROM allocations
        WHERE NOT everybody
        GROUP BY cluster, allocation_id
    ),
    told AS
    (
        SELECT
            cluster, allocation_id,
            anyIf(e.queue, e.event = 'submitted') AS queue,
            any(e.workload_id) AS workload_id,
            maxIf(e.gpus, e.event = 'submitted') AS gpus,
            anyIf(e.reason, e.event = 'submitted') AS reason,
            minIf(e.ts, e.event = 'submitted') AS submitted_at,
            minOrNullIf(e.ts, e.event = 'started') AS started_at,
            maxOrNullIf(e.ts, e.event IN ('finished', 'failed', 'cancelled', 'rejected')) AS ended_at
        FROM events AS e
        WHERE e.ts >= {start:DateTime64(3,'UTC')} - INTERVAL 62 DAY AND e.ts < {end:DateTime64(3,'UTC')}
            AND e.event IN ('submitted', 'started', 'finished', 'failed', 'cancelled', 'rejected')
            AND (empty({clusters:Array(String)}) OR has({clusters:Array(String)}, cluster))
            AND (everybody
                OR (cluster, allocation_id) IN (SELECT cluster, allocation_id FROM placed WHERE wanted)
                OR ((empty({tenants:Array(String)}) OR has({tenants:Array(String)}, tenant))
                    AND (empty({projects:Array(String)}) OR has({projects:Array(String)}, project))
                    AND (cluster, allocation_id) NOT IN (SELECT cluster, allocation_id FROM placed)))
        GROUP BY cluster, allocation_id
        HAVING countIf(e.event = 'submitted') > 0
    ),
    bounds AS
    (
        SELECT q.cluster AS cluster, q.queue AS queue, min(o.bound) AS bound
        FROM
        (
            SELECT DISTINCT cluster, queue FROM events
            WHERE ts >= {start:DateTime64(3,'UTC')} - INTERVAL 62 DAY AND ts < {end:DateTime64(3,'UTC')} AND event = 'submitted'
        ) AS q
        CROSS JOIN (SELECT * FROM slo_objectives WHERE kind = 'queue_wait' AND tenant = '(?s)\\A.*\\z') AS o
        WHERE match(q.cluster, o.cluster) AND match(q.queue, o.queue)
        GROUP BY cluster, queue
    ),
    waits AS
    (
        SELECT
            t.queue AS queue, t.workload_id AS workload_id, t.gpus AS gpus, t.reason AS reason, b.bound AS bound,
            ifNull(t.started_at >= {start:DateTime64(3,'UTC')}, false) AS began,
            t.started_at IS NULL AND t.ended_at IS NULL AS waits,
            dateDiff('millisecond', t.submitted_at, ifNull(t.started_at, {end:DateTime64(3,'UTC')})) / 1000 AS wait_seconds
        FROM told AS t
        LEFT JOIN bounds AS b ON t.cluster = b.cluster AND t.queue = b.queue
        WHERE empty({queues:Array(String)}) OR has({queues:Array(String)}, t.queue)
    )
SELECT
    queue,
    countIf(waits) AS waiting,
    sumOrNullIf(gpus, waits) AS waiting_gpus,
    sumMapIf([reason], [toUInt64(1)], waits) AS by_reason,
    by_reason.1 AS reasons,
    by_reason.2 AS jobs,
    maxOrNullIf(wait_seconds, waits) AS oldest_seconds,
    argMaxIf(workload_id, wait_seconds, waits) AS oldest,
    countIf(began) AS started,
    quantilesExactIf(0.5, 0.95, 0.99)(wait_seconds, began) AS quantiles,
    if(started > 0, quantiles[1], NULL) AS p50,
    if(started > 0, quantiles[2], NULL) AS p95,
    if(started > 0, quantiles[3], NULL) AS p99,
    min(w.bound) AS bound,
    if(bound IS NULL, NULL, countIf(wait_seconds > w.bound)) AS late
FROM waits AS w
WHERE began OR waits
GROUP BY queue
ORDER BY waiting DESC, p95 DESC, queue
