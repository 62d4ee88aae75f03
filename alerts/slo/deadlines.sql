-- Adds points of queue_wait and completion_time: of allocations, those that reached a goal within the bound.
-- Units:   allocations.
-- Shape:   good at the moment of the goal, bad at the moment at which the bound passes, whatever happens after. What ends
--          otherwise before that is neither. missing: the goal was reached, and nobody reported since when it was due.
-- Params:  run; definitions; [since, until) of the moments, since on the hour.
-- Reads:   all events of the allocations that have one within the longest bound before since, or later.
INSERT INTO slo_points (definition, run, hour, at, cluster, tenant, subject, good, bad, missing, dark_seconds)
WITH
    objective AS
    (
        SELECT definition, kind, cluster, tenant, queue, since AS due_since, assumeNotNull(bound) AS bound
        FROM slo_objectives
        WHERE has({definitions:Array(String)}, definition) AND kind IN ('queue_wait', 'completion_time')
    ),
    life AS
    (
        SELECT
            cluster, allocation_id,
            argMaxIf(queue, ts, queue != '') AS queue,
            argMaxIf(tenant, ts, tenant != '') AS tenant,
            minOrNullIf(ts, event = 'submitted') AS submitted_at,
            minOrNullIf(ts, event IN ('started', 'resized', 'resumed')) AS started_at,
            minOrNullIf(ts, event = 'finished') AS finished_at,
            minOrNullIf(ts, event IN ('preempted', 'finished', 'failed', 'cancelled', 'rejected')) AS ended_at
        FROM events
        WHERE ts <= {until:DateTime64(3, 'UTC')} AND (cluster, allocation_id) IN
        (
            SELECT cluster, allocation_id
            FROM events
            WHERE ts <= {until:DateTime64(3, 'UTC')}
                AND ts >= {since:DateTime64(3, 'UTC')} - toIntervalSecond((SELECT toUInt32(max(bound)) + 1 FROM objective))
        )
        GROUP BY cluster, allocation_id
    ),
    due AS
    (
        SELECT
            o.definition AS definition, life.cluster AS cluster, life.tenant AS tenant, life.queue AS subject,
            if(o.due_since = 'submitted', life.submitted_at, life.started_at) AS from_at,
            if(o.kind = 'queue_wait', life.started_at, life.finished_at) AS goal_at,
            life.ended_at AS ended_at,
            from_at + toIntervalMillisecond(toInt64(o.bound * 1000)) AS bound_at
        FROM life
        CROSS JOIN objective AS o
        WHERE match(life.cluster, o.cluster) AND match(life.tenant, o.tenant) AND match(life.queue, o.queue)
    ),
    decided AS
    (
        SELECT
            *,
            multiIf(
                from_at IS NULL, 'missing',
                goal_at <= bound_at, 'good',
                ifNull(goal_at > bound_at, true) AND (ended_at IS NULL OR ended_at > bound_at), 'bad',
                '') AS verdict,
            if(verdict = 'bad', bound_at, goal_at) AS moment
        FROM due
    )
SELECT
    definition,
    {run:UInt64} AS run,
    toStartOfHour(assumeNotNull(moment)) AS hour,
    toDateTime(toStartOfInterval(assumeNotNull(moment), INTERVAL 5 MINUTE), 'UTC') + INTERVAL 5 MINUTE AS at,
    cluster, tenant, subject,
    countIf(verdict = 'good') AS good,
    countIf(verdict = 'bad') AS bad,
    countIf(verdict = 'missing') AS missing,
    0 AS dark_seconds
FROM decided
WHERE verdict != '' AND moment >= {since:DateTime64(3, 'UTC')} AND moment < {until:DateTime64(3, 'UTC')}
GROUP BY definition, hour, at, cluster, tenant, subject
