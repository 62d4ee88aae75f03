-- One row: a job that began in the period after a wait of a second or more: {each} of each queue, the longest wait
-- first.
-- gpus NULL: not reported; reason: the last one reported, ''.
-- Parameters: start, end DateTime64(3) (UTC); each, most UInt32; those of ({jobs})
WITH top AS
(
    SELECT t.allocation_hash AS allocation_hash
    FROM ({jobs}) AS t
    WHERE t.started_at >= {start:DateTime64(3,'UTC')} AND dateDiff('millisecond', t.submitted_at, t.started_at) >= 1000
    ORDER BY dateDiff('millisecond', t.submitted_at, t.started_at) DESC, t.cluster, t.allocation_id
    LIMIT {each:UInt32} BY t.cluster, t.queue
    LIMIT {most:UInt32}
)
SELECT
    t.cluster AS cluster, t.allocation_id AS allocation_id, t.workload_id AS workload_id, t.queue AS queue, t.gpus AS gpus,
    t.reason AS reason, t.submitted_at AS submitted_at, t.started_at AS started_at,
    dateDiff('millisecond', t.submitted_at, t.started_at) / 1000 AS wait_seconds
FROM ({jobs}) AS t
WHERE t.allocation_hash IN (SELECT allocation_hash FROM top)
ORDER BY wait_seconds DESC, cluster, allocation_id
