-- One row: a job that began in the period after a wait of a second or more: {each} of each queue, the longest wait
-- first.
-- gpus NULL: not reported; reason: the last one reported, ''.
-- Parameters: start, end DateTime64(3) (UTC); each, most UInt32; those of ({jobs})
SELECT
    t.cluster AS cluster, t.allocation_id AS allocation_id, t.workload_id AS workload_id, t.queue AS queue, t.gpus AS gpus,
    t.reason AS reason, t.submitted_at AS submitted_at, t.started_at AS started_at,
    dateDiff('millisecond', t.submitted_at, t.started_at) / 1000 AS wait_seconds
FROM ({jobs}) AS t
WHERE t.started_at >= {start:DateTime64(3,'UTC')} AND wait_seconds >= 1
ORDER BY wait_seconds DESC, cluster, allocation_id
LIMIT {each:UInt32} BY cluster, queue
LIMIT {most:UInt32}
