-- One row: a queue in which something was waiting in the period, the longest waits first.
-- waiting: jobs still waiting at its end, waiting_gpus: what they ask for (NULL: none of them says); waiting_unsized: how many do not say.
-- started: jobs that began in it; median_seconds, p95_seconds: how long they had waited (NULL: none began).
-- As v_queue_wait, but for jobs submitted more than 62 days before the period: they are not looked for.
-- Parameters: start DateTime64(3) (UTC); those of ({jobs})
SELECT
    queue,
    countIf(waits) AS waiting,
    sumOrNullIf(gpus, waits) AS waiting_gpus,
    countIf(waits AND gpus IS NULL) AS waiting_unsized,
    countIf(began) AS started,
    quantileExactOrNullIf(0.5)(wait_seconds, began) AS median_seconds,
    quantileExactOrNullIf(0.95)(wait_seconds, began) AS p95_seconds
FROM
(
    SELECT
        queue, gpus,
        dateDiff('millisecond', submitted_at, started_at) / 1000 AS wait_seconds,
        ifNull(started_at >= {start:DateTime64(3,'UTC')}, false) AS began,
        started_at IS NULL AND ended_at IS NULL AS waits
    FROM ({jobs})
)
WHERE began OR waits
GROUP BY queue
ORDER BY waiting DESC, p95_seconds DESC, queue
LIMIT 12
