-- One row: coverage and use of one holding from several levels of streams: at every instant, the best level that covers it.
-- Units:   covered_ms; used = ms x units x 1e9 of all allocations of the workload that the cap counts.
-- Shape:   the levels' spans are overlaid: edges (at, level, +-(1 + rate)) in order; running sums show which levels cover.
--          Partition and device levels are kept apart, because their caps differ.
-- $$placed: placed.sql.
INSERT INTO {several:Identifier}
WITH
    wanted AS
    (
        SELECT claim, hour, start_ms, way, way.2 AS stream,
            toInt32(start_ms - toInt64(hour) * 3600000) AS begin, toInt32(end_ms - toInt64(hour) * 3600000) AS stop
        FROM {holdings:Identifier}
        ARRAY JOIN ways AS way
        WHERE (claim, start_ms) IN (SELECT claim, start_ms FROM {metered:Identifier} WHERE levels > 1)
    ),
    placed AS
    (
        $placed
    ),
    covering AS
    (
        SELECT stream, hour, since AS starts, at AS ends, rates FROM placed
        UNION ALL
        SELECT stream, hour, [since] AS starts, [at] AS ends, [rate] AS rates FROM {spilled:Identifier}
    ),
    edges AS
    (
        SELECT claim, start_ms,
            arraySort(x -> x.1, arrayFlatten(groupArray(arrayConcat(
                arrayMap(x -> (x.1, level, 1 + x.3), spans), arrayMap(x -> (x.2, level, -1 - x.3), spans))))) AS sorted,
            maxIf(cap, level <= 2) AS partition_cap,
            maxIf(cap, level > 2) AS device_cap
        FROM
        (
            SELECT claim, start_ms, way.1 AS level, way.4 AS cap,
                arrayFilter(
                    x -> x.3 >= 0 AND x.1 < x.2,
                    arrayMap(
                        (s, e, r) -> (toInt64(greatest(s, begin)), toInt64(least(e, stop)), least(r * way.3, way.4 * 1000000000)),
                        starts, ends, rates)) AS spans
            FROM covering
            INNER JOIN wanted ON covering.stream = wanted.stream AND covering.hour = wanted.hour
        )
        GROUP BY claim, start_ms
    ),
    laid AS
    (
        SELECT
            claim,
            start_ms,
            partition_cap,
            device_cap,
            arrayMap((this, next) -> next - this, sorted.1, arrayPushBack(arrayPopFront(sorted.1), sorted.1[-1])) AS lengths,
            arrayCumSum(x -> if(x.2 = 1, x.3, 0), sorted) AS by_1,
            arrayCumSum(x -> if(x.2 = 2, x.3, 0), sorted) AS by_2,
            arrayCumSum(x -> if(x.2 = 3, x.3, 0), sorted) AS by_3,
            arrayCumSum(x -> if(x.2 = 4, x.3, 0), sorted) AS by_4,
            arrayMap((a, b) -> if(a > 0, a, b), by_1, by_2) AS by_partition,
            arrayMap((p, a, b) -> multiIf(p > 0, 0, a > 0, a, b), by_partition, by_3, by_4) AS by_device
        FROM edges
    )
SELECT claim, start_ms,
    arraySum(arrayMap((l, a, b) -> if(a > 0 OR b > 0, l, 0), lengths, by_partition, by_device)) AS covered_ms,
    arraySum(arrayMap((l, a) -> if(a > 0, l * (a - 1), 0), lengths, by_partition)) AS used_of_partition,
    greatest(1, partition_cap) AS partition_cap,
    arraySum(arrayMap((l, b) -> if(b > 0, l * (b - 1), 0), lengths, by_device)) AS used_of_device,
    greatest(1, device_cap) AS device_cap
FROM laid
