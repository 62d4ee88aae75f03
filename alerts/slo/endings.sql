-- Adds points of job_success: of allocations that ended by themselves, those that finished.
-- Units:   allocations, at their end.
-- Shape:   failed is bad, unless its reason is one that does not count; preempted, cancelled and rejected are neither.
--          missing: an end that nobody reported (its end is estimated in the books).
-- Params:  run; definitions; [since, until), since on the hour.
INSERT INTO slo_points (definition, run, hour, at, cluster, tenant, subject, good, bad, missing, dark_seconds)
WITH
    objective AS
    (
        SELECT definition, cluster, tenant, queue, reasons
        FROM slo_objectives
        WHERE has({definitions:Array(String)}, definition) AND kind = 'job_success'
    ),
    reported AS
    (
        SELECT
            cluster, allocation_id,
            argMaxIf(queue, ts, queue != '') AS queue,
            argMaxIf(tenant, ts, tenant != '') AS tenant,
            max(if(event IN ('finished', 'failed', 'preempted', 'cancelled', 'rejected'), (ts, event, reason), (toDateTime64(0, 3, 'UTC'), '', ''))) AS ending
        FROM events
        WHERE ts < {until:DateTime64(3, 'UTC')} AND (cluster, allocation_id) IN
        (
            SELECT cluster, allocation_id
            FROM events
            WHERE event IN ('finished', 'failed') AND ts >= {since:DateTime64(3, 'UTC')} AND ts < {until:DateTime64(3, 'UTC')}
        )
        GROUP BY cluster, allocation_id
    ),
    ended AS
    (
        SELECT cluster, tenant, queue, ending.1 AS moment, ending.2 AS event, ending.3 AS reason
        FROM reported
        UNION ALL
        SELECT cluster, any(if(reported_tenant != '', reported_tenant, tenant)), any(queue), max(assumeNotNull(end_at)), 'lost', ''
        FROM allocations
        WHERE startsWith(estimated, 'end lost') AND end_at IS NOT NULL
        GROUP BY cluster, allocation_id
    )
SELECT
    o.definition AS definition,
    {run:UInt64} AS run,
    toStartOfHour(ended.moment) AS hour,
    toDateTime(toStartOfInterval(ended.moment, INTERVAL 5 MINUTE), 'UTC') + INTERVAL 5 MINUTE AS at,
    ended.cluster AS cluster, ended.tenant AS tenant, ended.queue AS subject,
    countIf(event = 'finished') AS good,
    countIf(event = 'failed') AS bad,
    countIf(event = 'lost') AS missing,
    0 AS dark_seconds
FROM ended
CROSS JOIN objective AS o
WHERE match(ended.cluster, o.cluster) AND match(ended.tenant, o.tenant) AND match(ended.queue, o.queue)
    AND event IN ('finished', 'failed', 'lost')
    AND NOT (event = 'failed' AND arrayExists(pattern -> match(reason, pattern), o.reasons))
    AND moment >= {since:DateTime64(3, 'UTC')} AND moment < {until:DateTime64(3, 'UTC')}
GROUP BY definition, hour, at, cluster, tenant, subject
