-- Adds points of quota_redemption: of what a tenant was entitled to, what it held.
-- Units:   GPU-seconds. entitled at an instant = least(guaranteed, held + asked for); good = least(held, entitled).
-- Shape:   held is from the books (units of a device are shares of it); asked for are the requests of what was submitted
--          and has neither started nor ended, but for reasons that are not admissible. A series is a tenant of a cluster.
-- Params:  run; definitions; [since, until), since on the hour, until not after the last closed hour.
INSERT INTO slo_points (definition, run, hour, at, cluster, tenant, subject, good, bad, missing, dark_seconds)
WITH
    toUnixTimestamp64Milli({since:DateTime64(3, 'UTC')}) AS since_ms,
    toUnixTimestamp64Milli({until:DateTime64(3, 'UTC')}) AS until_ms,
    objective AS
    (
        SELECT definition, cluster, tenant, queue, assumeNotNull(bound) AS guaranteed, reasons
        FROM slo_objectives
        WHERE has({definitions:Array(String)}, definition) AND kind = 'quota_redemption'
    ),
    held AS
    (
        SELECT
            a.cluster AS cluster, if(a.reported_tenant != '', a.reported_tenant, a.tenant) AS tenant, a.queue AS queue,
            a.units / greatest(1, d.units) AS gpus,
            toUnixTimestamp64Milli(a.start_at) AS start_ms,
            if(a.end_at IS NULL, until_ms, toUnixTimestamp64Milli(assumeNotNull(a.end_at))) AS end_ms
        FROM allocations AS a
        ASOF LEFT JOIN (SELECT cluster, device_id, ts, max((state, devices.units)).2 AS units FROM devices GROUP BY cluster, device_id, ts) AS d
            ON a.cluster = d.cluster AND a.device_id = d.device_id AND a.start_at >= d.ts
        WHERE a.start_at < {until:DateTime64(3, 'UTC')} AND (a.end_at IS NULL OR a.end_at > {since:DateTime64(3, 'UTC')})
    ),
    asked AS
    (
        SELECT
            cluster,
            argMaxIf(tenant, (ts, tenant), tenant != '') AS tenant,
            argMaxIf(queue, (ts, queue), queue != '') AS queue,
            argMaxIf(reason, (ts, reason), event = 'submitted') AS reason,
            ifNull(max(events.gpus), 0) AS gpus,
            toUnixTimestamp64Milli(minIf(ts, event = 'submitted')) AS start_ms,
            minOrNullIf(ts, event != 'submitted' AND event != 'suspended') AS through
        FROM events
        WHERE ts < {until:DateTime64(3, 'UTC')}
        GROUP BY cluster, allocation_id
        HAVING countIf(event = 'submitted') > 0 AND (through IS NULL OR through > {since:DateTime64(3, 'UTC')})
    ),
    change AS
    (
        SELECT definition, cluster, tenant, moment, sum(held_gpus) AS held_gpus, sum(asked_gpus) AS asked_gpus
        FROM
        (
            SELECT
                o.definition AS definition, h.cluster AS cluster, h.tenant AS tenant,
                greatest(edge.1, since_ms) AS moment, edge.2 * h.gpus AS held_gpus, 0. AS asked_gpus
            FROM held AS h
            CROSS JOIN objective AS o
            ARRAY JOIN [(h.start_ms, 1.), (h.end_ms, -1.)] AS edge
            WHERE match(h.cluster, o.cluster) AND match(h.tenant, o.tenant) AND match(h.queue, o.queue)
            UNION ALL
            SELECT
                o.definition, q.cluster, q.tenant,
                greatest(edge.1, since_ms), 0., edge.2 * q.gpus
            FROM asked AS q
            CROSS JOIN objective AS o
            ARRAY JOIN [(q.start_ms, 1.), (if(q.through IS NULL, until_ms, toUnixTimestamp64Milli(assumeNotNull(q.through))), -1.)] AS edge
            WHERE match(q.cluster, o.cluster) AND match(q.tenant, o.tenant) AND match(q.queue, o.queue)
                AND NOT arrayExists(pattern -> match(q.reason, pattern), o.reasons)
        )
        WHERE moment < until_ms
        GROUP BY definition, cluster, tenant, moment
    ),
    step AS
    (
        SELECT
            definition, cluster, tenant, moment,
            leadInFrame(moment, 1, until_ms) OVER later AS next_moment,
            round(sum(held_gpus) OVER earlier, 9) AS holds,
            round(sum(asked_gpus) OVER earlier, 9) AS asks
        FROM
        (
            SELECT definition, cluster, tenant, moment, sum(held_gpus) AS held_gpus, sum(asked_gpus) AS asked_gpus
            FROM
            (
                SELECT * FROM change
                UNION ALL
                SELECT DISTINCT definition, cluster, tenant,
                    arrayJoin(range(toUInt64(since_ms), toUInt64(until_ms), 300000))::Int64, 0., 0. FROM change
            )
            GROUP BY definition, cluster, tenant, moment
        )
        WINDOW
            earlier AS (PARTITION BY definition, cluster, tenant ORDER BY moment ROWS UNBOUNDED PRECEDING),
            later AS (PARTITION BY definition, cluster, tenant ORDER BY moment ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
    )
SELECT
    s.definition AS definition,
    {run:UInt64} AS run,
    toDateTime(intDiv(s.moment, 3600000) * 3600, 'UTC') AS hour,
    toDateTime(intDiv(s.moment, 300000) * 300 + 300, 'UTC') AS at,
    s.cluster AS cluster, s.tenant AS tenant, '' AS subject,
    sum(least(s.holds, o.guaranteed) * (s.next_moment - s.moment)) / 1000 AS good,
    sum((least(o.guaranteed, s.holds + s.asks) - least(s.holds, o.guaranteed)) * (s.next_moment - s.moment)) / 1000 AS bad,
    0 AS missing,
    0 AS dark_seconds
FROM step AS s
INNER JOIN objective AS o ON s.definition = o.definition
GROUP BY definition, hour, at, cluster, tenant
HAVING good + bad > 0
