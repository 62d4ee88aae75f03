-- One row: a queue in which something was waiting in the period, the most waiting first.
-- waiting: jobs still waiting at its end, or at the newest instant of it with facts; waiting_gpus: what they ask for (NULL: none
--          of them says); reasons, jobs: how many of them for each reason reported; oldest_seconds, oldest: how long the first
--          of them waits, and its workload.
-- started: jobs that began in it; p50, p95, p99: seconds that they had waited (NULL: none began).
-- bound: seconds, of the strictest objective for all tenants of the queue; late: jobs that began later than that, or wait
--          longer at the end (NULL: no objective); judged: those and the jobs that began in time.
-- Parameters: start, end DateTime64(3) (UTC); bound_clusters, bound_queues Array(String), bounds Array(Nullable(Float64)): the rows of
--             bounds.sql; those of ({jobs})
WITH
    bounds AS
    (
        SELECT one.1 AS cluster, one.2 AS queue, one.3 AS bound
        FROM (SELECT arrayJoin(arrayZip({bound_clusters:Array(String)}, {bound_queues:Array(String)}, {bounds:Array(Nullable(Float64))})) AS one)
    ),
    waits AS
    (
        SELECT
            t.queue AS queue, t.workload_id AS workload_id, t.gpus AS gpus, t.reason AS reason, b.bound AS bound,
            ifNull(t.started_at >= {start:DateTime64(3,'UTC')}, false) AS began,
            t.started_at IS NULL AND t.ended_at IS NULL AS waits,
            dateDiff('millisecond', t.submitted_at, ifNull(t.started_at, {end:DateTime64(3,'UTC')})) / 1000 AS wait_seconds
        FROM ({jobs}) AS t
        LEFT JOIN bounds AS b ON t.cluster = b.cluster AND t.queue = b.queue
    )
SELECT
    queue,
    countIf(waits) AS waiting,
    sumOrNullIf(gpus, waits) AS waiting_gpus,
    sumMapIf([reason], [toUInt64(1)], waits) AS by_reason,
    by_reason.1 AS reasons,
    by_reason.2 AS jobs,
    maxOrNullIf(wait_seconds, waits) AS oldest_seconds,
    argMinIf(w.workload_id, (-w.wait_seconds, w.workload_id), waits) AS oldest,
    countIf(began) AS started,
    quantilesExactIf(0.5, 0.95, 0.99)(wait_seconds, began) AS quantiles,
    if(started > 0, quantiles[1], NULL) AS p50,
    if(started > 0, quantiles[2], NULL) AS p95,
    if(started > 0, quantiles[3], NULL) AS p99,
    min(w.bound) AS bound,
    if(bound IS NULL, NULL, countIf(wait_seconds > w.bound)) AS late,
    countIf(began AND w.bound IS NOT NULL OR wait_seconds > w.bound) AS judged
FROM waits AS w
WHERE began OR waits
GROUP BY queue
ORDER BY waiting DESC, p95 DESC, queue
