-- One row: a queue in which something was waiting in the period, the most waiting first.
-- waiting: jobs still waiting at its end, or at the newest instant of it with facts; waiting_gpus: what they ask for (NULL: none
--          of them says); waiting_unsized: how many of them do not say; reasons, jobs: how many of them for each reason
--          reported; oldest_seconds: how long the first of them waits.
-- started: jobs that began in it; p50, p95, p99: seconds that they had waited (NULL: none began).
-- longest: of those that waited a second or more, the three of each cluster that waited longest: milliseconds, negative, and
--          allocation_hash.
-- bound: seconds, of the strictest objective for all tenants of the queue; late: jobs that began later than that, or wait
--          longer at the end (NULL: no objective); judged: those and the jobs that began in time.
-- Traps: to sort by both numbers of `longest` in one costs a quarter of what their pairs cost.
--        A job's names are no part of this: of all jobs they cost half as much again (longest.sql asks for those of a few).
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
            t.cluster AS cluster, t.queue AS queue, t.allocation_hash AS allocation_hash, t.gpus AS gpus, t.reason AS reason,
            ifNull(t.started_at >= {start:DateTime64(3,'UTC')}, false) AS began,
            t.started_at IS NULL AND t.ended_at IS NULL AS waits,
            dateDiff('millisecond', t.submitted_at, ifNull(t.started_at, {end:DateTime64(3,'UTC')})) AS waited_ms
        FROM ({jobs}) AS t
        WHERE began OR waits
    ),
    queues AS
    (
        SELECT
            cluster, queue,
            sumOrNullIf(gpus, waits) AS waiting_gpus,
            countIf(waits AND gpus IS NULL) AS waiting_unsized,
            sumMapIf([reason], [toUInt64(1)], waits) AS by_reason,
            groupArrayIf(waited_ms / 1000, waits) AS waiting_seconds,
            groupArrayIf(waited_ms / 1000, began) AS began_seconds,
            arrayMap(
                one -> (toInt64(bitShiftRight(one, 64)), toUInt64(bitAnd(one, 0xFFFFFFFFFFFFFFFF))),
                groupArraySortedIf(3)(
                    bitOr(bitShiftLeft(toInt128(-waited_ms), 64), toInt128(allocation_hash)), began AND waited_ms >= 1000)) AS longest
        FROM waits
        GROUP BY cluster, queue
    )
SELECT
    queue,
    sum(length(q.waiting_seconds)) AS waiting,
    sumOrNull(q.waiting_gpus) AS waiting_gpus,
    sum(q.waiting_unsized) AS waiting_unsized,
    sumMap(q.by_reason.1, q.by_reason.2) AS by_reason,
    by_reason.1 AS reasons,
    by_reason.2 AS jobs,
    maxOrNullArray(q.waiting_seconds) AS oldest_seconds,
    groupArrayArray(q.longest) AS longest,
    sum(length(q.began_seconds)) AS started,
    quantilesExactArray(0.5, 0.95, 0.99)(q.began_seconds) AS quantiles,
    if(started > 0, quantiles[1], NULL) AS p50,
    if(started > 0, quantiles[2], NULL) AS p95,
    if(started > 0, quantiles[3], NULL) AS p99,
    min(b.bound) AS bound,
    sum(arrayCount(one -> one > ifNull(b.bound, inf), q.waiting_seconds)) AS late_waiting,
    if(bound IS NULL, NULL, late_waiting + sum(arrayCount(one -> one > ifNull(b.bound, inf), q.began_seconds))) AS late,
    late_waiting + sum(if(b.bound IS NULL, 0, length(q.began_seconds))) AS judged
FROM queues AS q
LEFT JOIN bounds AS b ON q.cluster = b.cluster AND q.queue = b.queue
GROUP BY queue
ORDER BY waiting DESC, p95 DESC, queue
