-- One row: a placement of a job that the Kubernetes operator runs and of which an idle policy took something back: its pods.
-- Units:   size and kept in replicas (pods), as its pods say: how many it had, and how many were to be in the next one.
-- Shape:   begun: when the first of its pods was made. over: whether all pods that are known have ended, over_at: the last
--          one then. was_idle: an idle policy suspended or cancelled the job there. rescaled_at: when somebody first made
--          it smaller (NULL: nobody).
-- Params:  start, end = [start, end) of the events that count. $$read, last, others: as in idle_reclaims.sql.
WITH
    known AS
    (
        SELECT ts, toString(cluster) AS cluster, allocation_id, event, reason, message
        FROM events
        WHERE ts >= {start:DateTime64(3, 'UTC')} AND ts < {end:DateTime64(3, 'UTC')}
            AND (batch = 0 OR batch IN (SELECT arrayJoin(batches) FROM close_batches WHERE $read))
    ),
    named AS
    (
        SELECT
            cluster, allocation_id, min(ts) AS made,
            any(extractGroups(message, '^pod ([^/ ]+)/[^ ]+ of ElasticJob/([^ :]+): rank [0-9]+ of ([0-9]+) in placement ([0-9]+), (.+)')) AS said
        FROM known
        WHERE event = 'submitted' AND startsWith(message, 'pod ') AND position(message, ' of ElasticJob/') > 0
        GROUP BY cluster, allocation_id
        HAVING notEmpty(said)
            AND (cluster, concat(said[1], '/', said[2])) IN
                (SELECT cluster, JSONExtractString(message, 'job') FROM known WHERE startsWith(reason, 'IdleReclaimed'))
    ),
    ended AS
    (
        SELECT cluster, allocation_id, min(ts) AS ended_at, argMin((reason, message), ts) AS why,
            JSONExtractString(tupleElement(why, 2), 'act') = 'shrunk' AS is_shrunk
        FROM known
        WHERE event IN ('finished', 'failed', 'cancelled', 'preempted', 'rejected', 'suspended')
        GROUP BY cluster, allocation_id
    )
SELECT
    named.cluster AS cluster, concat(said[1], '/', said[2]) AS job, toUInt64(said[4]) AS placement,
    any(said[5]) AS allocation, max(toUInt32(said[3])) AS size, min(made) AS begun,
    countIf(ended.allocation_id = '') = 0 AS over, max(ended_at) AS over_at,
    minOrDefaultIf(toUInt32(JSONExtractUInt(tupleElement(why, 2), 'left')), is_shrunk) AS fewer, if(fewer > 0, fewer, size) AS kept,
    max(startsWith(tupleElement(why, 1), 'IdleReclaimed')
        AND JSONExtractString(tupleElement(why, 2), 'act') IN ('suspended', 'cancelled')) AS was_idle,
    minOrNullIf(ended_at, startsWith(tupleElement(why, 1), 'Rescaled')) AS rescaled_at
FROM named
LEFT JOIN ended ON named.cluster = ended.cluster AND named.allocation_id = ended.allocation_id
GROUP BY cluster, job, placement
ORDER BY cluster, job, begun, placement
