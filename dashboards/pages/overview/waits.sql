-- One row: a queue in which something was waiting in the period, the longest waits first.
-- waiting: jobs still waiting at its end, waiting_gpus: what they ask for (NULL: none of them says).
-- started: jobs that began in it; median_seconds, p95_seconds: how long they had waited (NULL: none began).
-- Parameters: start, end DateTime64(3) (UTC); tenants, projects, queues, clusters Array(String), empty: all
WITH waits AS
(
    SELECT
        queue, gpus, wait_seconds,
        started_at >= {start:DateTime64(3,'UTC')} AND started_at < {end:DateTime64(3,'UTC')} AS began,
        (started_at IS NULL OR started_at >= {end:DateTime64(3,'UTC')})
            AND (ended_at IS NULL OR ended_at >= {end:DateTime64(3,'UTC')}) AS waits
    FROM v_queue_wait
    WHERE submitted_at < {end:DateTime64(3,'UTC')}
        AND ifNull(ended_at, {end:DateTime64(3,'UTC')}) >= {start:DateTime64(3,'UTC')}
        AND (empty({tenants:Array(String)}) OR has({tenants:Array(String)}, tenant))
        AND (empty({projects:Array(String)}) OR has({projects:Array(String)}, project))
        AND (empty({queues:Array(String)}) OR has({queues:Array(String)}, queue))
        AND (empty({clusters:Array(String)}) OR has({clusters:Array(String)}, cluster))
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
