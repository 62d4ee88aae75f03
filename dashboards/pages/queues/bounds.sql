-- One row: a queue in which something was submitted, and the strictest objective on waits for all of its tenants, in seconds.
-- Parameters: start, end DateTime64(3) (UTC)
SELECT q.cluster AS cluster, q.queue AS queue, min(o.bound) AS bound
FROM
(
    SELECT DISTINCT cluster, queue FROM events
    WHERE ts >= {start:DateTime64(3,'UTC')} - INTERVAL 62 DAY AND ts < {end:DateTime64(3,'UTC')} AND event = 'submitted'
) AS q
CROSS JOIN (SELECT * FROM slo_objectives WHERE kind = 'queue_wait' AND tenant = '(?s)\\A.*\\z') AS o
WHERE match(q.cluster, o.cluster) AND match(q.queue, o.queue)
GROUP BY cluster, queue
