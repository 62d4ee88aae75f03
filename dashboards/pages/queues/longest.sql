-- One row: one of some jobs that began in the period, the longest wait first.
-- gpus NULL: not reported; reason: the last one reported, ''.
-- Parameters: hashes Array(UInt64): allocation_hash of each; those of ({jobs})
SELECT
    t.cluster AS cluster, t.allocation_id AS allocation_id, t.workload_id AS workload_id, t.queue AS queue, t.gpus AS gpus,
    t.reason AS reason, t.submitted_at AS submitted_at, t.started_at AS started_at,
    dateDiff('millisecond', t.submitted_at, t.started_at) / 1000 AS wait_seconds
FROM ({jobs}) AS t
WHERE t.allocation_hash IN {hashes:Array(UInt64)}
ORDER BY wait_seconds DESC, cluster, allocation_id
