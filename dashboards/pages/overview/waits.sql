-- One row: a queue in which something was waiting in the period, the longest waits first.
-- waiting: jobs still waiting at its end, waiting_gpus: what they ask for (NULL: none of them says).
-- started: jobs that began in it; median_seconds, p95_seconds: how long they had waited (NULL: none began).
-- A tenant's and project's jobs are those that the books say are theirs; of jobs that were never placed, as told.
-- As v_queue_wait, but for jobs submitted more than 62 days before the period: they are not looked for.
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
            maxIf(e.gpus, e.event = 'submitted') AS gpus,
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
    waits AS
    (
        SELECT
            queue, gpus,
            dateDiff('millisecond', submitted_at, started_at) / 1000 AS wait_seconds,
            ifNull(started_at >= {start:DateTime64(3,'UTC')}, false) AS began,
            started_at IS NULL AND ended_at IS NULL AS waits
        FROM told
        WHERE empty({queues:Array(String)}) OR has({queues:Array(String)}, queue)
    )
SELECT
    queue,
    countIf(waits) AS waiting,
    sumOrNullIf(gpus, waits) AS waiting_gpus,
    countIf(began) AS started,
    quantileExactOrNullIf(0.5)(wait_seconds, began) AS median_seconds,
    quantileExactOrNullIf(0.95)(wait_seconds, began) AS p95_seconds
FROM waits
WHERE began OR waits
GROUP BY queue
ORDER BY waiting DESC, p95_seconds DESC, queue
LIMIT 12
