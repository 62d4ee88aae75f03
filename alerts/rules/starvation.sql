-- One row: an allocation that has waited for {least_seconds} or longer while others overtook it.
-- Units:   value: allocations of the same queue and of no higher priority that were submitted later and have started.
-- Params:  at; least_seconds.
WITH
    waiting AS (SELECT * FROM waiters(at = {at:DateTime64(3, 'UTC')}) WHERE submitted_at <= {at:DateTime64(3, 'UTC')} - toIntervalSecond({least_seconds:UInt32})),
    started AS
    (
        SELECT
            cluster, allocation_id, argMin(e.queue, ts) AS queue, argMin(e.priority, ts) AS priority,
            minIfOrNull(ts, event = 'submitted') AS submitted_at
        FROM events AS e
        WHERE ts <= {at:DateTime64(3, 'UTC')} AND ts >= (SELECT min(submitted_at) FROM waiting)
        GROUP BY cluster, allocation_id
        HAVING countIf(event = 'started') > 0 AND submitted_at IS NOT NULL
    )
SELECT
    w.cluster AS cluster, w.allocation_id AS allocation_id, w.workload_id AS workload_id, w.tenant AS tenant,
    w.project AS project, w.queue AS queue, w.gpus AS gpus, w.reason AS reason,
    dateDiff('second', w.submitted_at, {at:DateTime64(3, 'UTC')}) AS waiting_seconds,
    countIf(s.submitted_at > w.submitted_at AND (s.priority <= w.priority OR s.priority IS NULL OR w.priority IS NULL)) AS value
FROM waiting AS w
LEFT JOIN started AS s ON w.cluster = s.cluster AND w.queue = s.queue
GROUP BY ALL
