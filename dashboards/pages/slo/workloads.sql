-- One row: one of some identities of (since, until], and the workload of it that was measured last.
-- Parameters: since, until DateTime64(3) (UTC); identities Array(String)
SELECT identity, argMax(workload_id, at) AS workload_id
FROM interference
WHERE at > toDateTime({since:DateTime64(3,'UTC')}, 'UTC') AND at <= toDateTime({until:DateTime64(3,'UTC')}, 'UTC')
    AND hour > {since:DateTime64(3,'UTC')} - INTERVAL 1 HOUR AND hour < {until:DateTime64(3,'UTC')}
    AND has({identities:Array(String)}, toString(identity))
GROUP BY identity
