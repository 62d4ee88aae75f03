-- One row: an identity of (since, until], and the workload of it that was measured last.
-- Parameters: since, until DateTime64(3) (UTC)
SELECT identity, argMax(workload_id, at) AS workload_id
FROM interference
WHERE at > toDateTime({since:DateTime64(3,'UTC')}, 'UTC') AND at <= toDateTime({until:DateTime64(3,'UTC')}, 'UTC')
    AND identity != ''
GROUP BY identity
