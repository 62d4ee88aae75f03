SELECT
    queue, countIf(wait_seconds IS NOT NULL) AS started, quantile(0.5)(wait_seconds) AS p50,
    quantile(0.95)(wait_seconds) AS p95, countIf(started_at IS NULL AND ended_at IS NULL) AS still_waiting
FROM v_queue_wait
GROUP BY queue
ORDER BY p95 DESC
