-- One row: an identity that was beside another, and what its coming did to it.
-- Units:   arrivals: times a workload of it came while nobody else came or went, with three measured windows or more of
--          the five before and of the five after in which it stayed; rose: those in which the victim's median slowdown rose by {rise}
--          or more; effect: median of the differences. windows: shared with it; disturbed: of these;
--          disturbed_without: part of the victim's other shared windows that were disturbed, null: there are none.
-- Params:  (since, until]; rise; clusters, victims: of whom, pair by pair; empty: of all.
-- Reads:   windows of the victims once, in the order of their hours, and of all once by name.
WITH
    windows AS
    (
        SELECT
            cluster, identity, at, window_seconds, neighbours, state = 'shared' AS is_shared, disturbed = true AS is_disturbed,
            groupArray(slowdown) OVER (PARTITION BY cluster, identity, workload_id, service ORDER BY at ROWS BETWEEN 5 PRECEDING AND 1 PRECEDING) AS before,
            groupArray((slowdown, neighbours)) OVER (PARTITION BY cluster, identity, workload_id, service ORDER BY at ROWS BETWEEN CURRENT ROW AND 4 FOLLOWING) AS after,
            lagInFrame(neighbours, 1) OVER reported_before AS neighbours_before,
            lagInFrame(at, 1) OVER reported_before AS at_before,
            countIf(is_shared) OVER (PARTITION BY cluster, identity) AS all_windows,
            countIf(is_shared AND is_disturbed) OVER (PARTITION BY cluster, identity) AS all_disturbed
        FROM interference
        WHERE at > toDateTime({since:DateTime64(3, 'UTC')}, 'UTC') AND at <= toDateTime({until:DateTime64(3, 'UTC')}, 'UTC')
            AND hour > {since:DateTime64(3, 'UTC')} - INTERVAL 1 HOUR AND hour < {until:DateTime64(3, 'UTC')}
            AND (empty({victims:Array(String)})
                OR has(arrayZip({clusters:Array(String)}, {victims:Array(String)}), (toString(cluster), toString(identity))))
        WINDOW reported_before AS (PARTITION BY cluster, identity, workload_id, service ORDER BY at ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
    ),
    known AS
    (
        SELECT cluster, workload_id, min(identity) AS known_as
        FROM interference
        WHERE at > toDateTime({since:DateTime64(3, 'UTC')}, 'UTC') AND at <= toDateTime({until:DateTime64(3, 'UTC')}, 'UTC')
            AND hour > {since:DateTime64(3, 'UTC')} - INTERVAL 1 HOUR AND hour < {until:DateTime64(3, 'UTC')}
        GROUP BY cluster, workload_id
    ),
    beside AS
    (
        SELECT
            cluster, identity, neighbour, is_shared, is_disturbed, all_windows, all_disturbed,
            NOT has(neighbours_before, neighbour) AND length(neighbours) = length(neighbours_before) + 1
                AND toUnixTimestamp(at) - toUnixTimestamp(at_before) <= 2 * window_seconds AND length(before) >= 3 AS came,
            if(came, arrayMap(one -> assumeNotNull(one.1), arrayFilter(one -> has(one.2, neighbour) AND one.1 IS NOT NULL, after)), []) AS since_then,
            length(since_then) >= 3 AS arrived,
            if(arrived, arrayReduce('quantileExact(0.5)', since_then) - arrayReduce('quantileExact(0.5)', before), NULL) AS effect
        FROM windows
        ARRAY JOIN neighbours AS neighbour
    )
SELECT
    b.cluster AS cluster, b.identity AS victim, if(k.known_as != '', toString(k.known_as), b.neighbour) AS aggressor,
    countIf(b.arrived) AS arrivals, countIf(b.effect >= {rise:Float64}) AS rose, quantileExact(0.5)(b.effect) AS effect,
    countIf(b.is_shared) AS windows, countIf(b.is_shared AND b.is_disturbed) AS disturbed,
    if(any(b.all_windows) > windows, (any(b.all_disturbed) - disturbed) / (any(b.all_windows) - windows), NULL) AS disturbed_without
FROM beside AS b
LEFT JOIN known AS k ON b.cluster = k.cluster AND b.neighbour = k.workload_id
GROUP BY cluster, victim, aggressor
HAVING windows > 0
ORDER BY rose DESC, effect DESC NULLS LAST, disturbed DESC, cluster, victim, aggressor
