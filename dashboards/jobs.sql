-- What pages select from as ({jobs}): jobs submitted before the period's end, but not more than 62 days before it.
-- One row: a job as its source reported it. allocation_hash: of cluster and allocation_id; to group by them costs twice as much.
-- gpus NULL: not reported; reason: why it waits; started_at, ended_at NULL: not yet.
-- Traps: aggregates of what can be NULL cost a fifth more than 1970 or -1 in its place.
-- The tenant is that of the books (chosen_jobs.sql); for jobs that were never placed, the reported one.
-- Parameters: start, end DateTime64(3) (UTC); queues, clusters Array(String), empty: all; those of chosen_jobs.sql
SELECT
    allocation_hash, any(e.cluster) AS cluster, any(e.allocation_id) AS allocation_id,
    anyIf(e.queue, e.event = 'submitted') AS queue,
    any(e.workload_id) AS workload_id,
    nullIf(maxIf(ifNull(e.gpus, -1), e.event = 'submitted'), -1) AS gpus,
    argMaxIf(e.reason, e.ts, e.event = 'submitted') AS reason,
    minIf(e.ts, e.event = 'submitted') AS submitted_at,
    nullIf(minIf(e.ts, e.event = 'started'), fromUnixTimestamp64Milli(0, 'UTC')) AS started_at,
    nullIf(maxIf(e.ts, e.event IN ('finished', 'failed', 'cancelled', 'rejected')), fromUnixTimestamp64Milli(0, 'UTC')) AS ended_at
FROM events AS e
WHERE e.ts >= {start:DateTime64(3,'UTC')} - INTERVAL 62 DAY AND e.ts < {end:DateTime64(3,'UTC')}
    AND e.event IN ('submitted', 'started', 'finished', 'failed', 'cancelled', 'rejected')
    AND (empty({clusters:Array(String)}) OR has({clusters:Array(String)}, e.cluster))
    AND ({chosen_jobs})
GROUP BY allocation_hash
HAVING submitted_at > fromUnixTimestamp64Milli(0, 'UTC') AND (empty({queues:Array(String)}) OR has({queues:Array(String)}, queue))
