-- One row: an identity that was beside another, and what its coming did to it.
-- Units:   arrivals: times a workload of it came while nobody else came or went, with three measured windows or more of
--          the five before and of the five after in which it stayed; rose: those in which the victim's median slowdown rose by {rise}
--          or more; effect: median of the differences. windows: shared with it; disturbed: of these;
--          disturbed_without: part of the victim's other shared windows that were disturbed, null: there are none.
-- Params:  (since, until]; rise.
WITH
    windows AS
    (
        SELECT
            cluster, identity, workload_id, service, at, window_seconds, neighbours, slowdown, state, disturbed,
            groupArray(slowdown) OVER (PARTITION BY cluster, workload_id, service ORDER BY at ROWS BETWEEN 5 PRECEDING AND 1 PRECEDING) AS before,
            groupArray((slowdown, neighbours)) OVER (PARTITION BY cluster, workload_id, service ORDER BY at ROWS BETWEEN CURRENT ROW AND 4 FOLLOWING) AS after,
            lagInFrame(neighbours, 1) OVER reported_before AS neighbours_before,
            lagInFrame(at, 1) OVER reported_before AS at_before
        FROM interference
        WHERE at > toDateTime({since:DateTime64(3, 'UTC')}, 'UTC') AND at <= toDateTime({until:DateTime64(3, 'UTC')}, 'UTC')
        WINDOW reported_before AS (PARTITION BY cluster, workload_id, service ORDER BY at ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
    ),
    known AS
    (
        SELECT cluster, workload_id, min(identity) AS known_as
        FROM interference
        WHERE at > toDateTime({since:DateTime64(3, 'UTC')}, 'UTC') AND at <= toDateTime({until:DateTime64(3, 'UTC')}, 'UTC')
        GROUP BY cluster, workload_id
    ),
    arrival AS
    (
        SELECT
            cluster, identity, came,
            arrayMap(one -> assumeNotNull(one.1), arrayFilter(one -> has(one.2, came) AND one.1 IS NOT NULL, after)) AS since_then,
            arrayReduce('quantileExact(0.5)', since_then) - arrayReduce('quantileExact(0.5)', before) AS effect
        FROM windows
        ARRAY JOIN arrayFilter(one -> NOT has(neighbours_before, one), neighbours) AS came
        WHERE toUnixTimestamp(at) - toUnixTimestamp(at_before) <= 2 * window_seconds
            AND length(neighbours) = length(neighbours_before) + 1
            AND length(before) >= 3 AND length(since_then) >= 3
    ),
    beside AS
    (
        SELECT cluster, identity, arrayJoin(neighbours) AS neighbour, disturbed FROM windows WHERE state = 'shared'
    )
SELECT
    p.cluster AS cluster, p.victim AS victim, p.aggressor AS aggressor,
    ifNull(a.arrivals, 0) AS arrivals, ifNull(a.rose, 0) AS rose, if(a.arrivals > 0, a.effect, NULL) AS effect,
    p.windows AS windows, p.disturbed AS disturbed,
    if(t.windows > p.windows, (t.disturbed - p.disturbed) / (t.windows - p.windows), NULL) AS disturbed_without
FROM
(
    SELECT
        b.cluster AS cluster, b.identity AS victim, if(k.known_as != '', k.known_as, b.neighbour) AS aggressor,
        count() AS windows, countIf(b.disturbed = true) AS disturbed
    FROM beside AS b
    LEFT JOIN known AS k ON b.cluster = k.cluster AND b.neighbour = k.workload_id
    GROUP BY cluster, victim, aggressor
) AS p
LEFT JOIN
(
    SELECT
        r.cluster AS cluster, r.identity AS victim, if(k.known_as != '', k.known_as, r.came) AS aggressor,
        count() AS arrivals, countIf(r.effect >= {rise:Float64}) AS rose, quantileExact(0.5)(r.effect) AS effect
    FROM arrival AS r
    LEFT JOIN known AS k ON r.cluster = k.cluster AND r.came = k.workload_id
    GROUP BY cluster, victim, aggressor
) AS a ON p.cluster = a.cluster AND p.victim = a.victim AND p.aggressor = a.aggressor
LEFT JOIN
(
    SELECT cluster, identity, count() AS windows, countIf(disturbed = true) AS disturbed
    FROM windows WHERE state = 'shared' GROUP BY cluster, identity
) AS t ON p.cluster = t.cluster AND p.victim = t.identity
ORDER BY rose DESC, effect DESC NULLS LAST, disturbed DESC, cluster, victim, aggressor
