-- One row: what the streams together say of one holding, at every instant the best level that covers it.
-- Units:   covered_ms; used = ms x units x 1e9 of all allocations of the workload that cap counts.
-- Shape:   a holding that one level alone speaks of keeps that level's sums; where several do, their spans are laid
--          over each other: edges (at, level, +-(1 + rate)) in order, running sums say which levels cover.
CREATE TABLE {merged:Identifier} ENGINE = Memory AS
WITH
    several AS
    (
        SELECT claim, start_ms FROM {metered:Identifier} GROUP BY claim, start_ms HAVING count() > 1
    ),
    edges AS
    (
        SELECT claim, start_ms,
            arraySort(x -> x.1, arrayFlatten(groupArray(arrayConcat(
                arrayMap((s, r) -> (s, way.1, 1 + least(r * way.3, way.4 * 1000000000)), starts, rates),
                arrayMap((e, r) -> (e, way.1, -1 - least(r * way.3, way.4 * 1000000000)), ends, rates))))) AS sorted,
            maxIf(way.4, way.1 <= 2) AS partition_cap,
            maxIf(way.4, way.1 > 2) AS device_cap
        FROM
        (
            SELECT claim, start_ms, way,
                arrayFilter((x, s, e) -> s < e, arrayMap(s -> toInt64(greatest(s, begin)), span_starts) AS all_starts, all_starts, arrayMap(e -> toInt64(least(e, stop)), span_ends) AS all_ends) AS starts,
                arrayFilter((x, s, e) -> s < e, all_ends, all_starts, all_ends) AS ends,
                arrayFilter((x, s, e) -> s < e, span_rates, all_starts, all_ends) AS rates
            FROM {spans:Identifier} AS spans
            INNER JOIN
            (
                SELECT claim, hour, start_ms, way, way.2 AS stream,
                    toInt32(start_ms - toInt64(hour) * 3600000) AS begin, toInt32(end_ms - toInt64(hour) * 3600000) AS stop
                FROM {holdings:Identifier}
                ARRAY JOIN levels AS way
                WHERE (claim, start_ms) IN (SELECT claim, start_ms FROM several)
            ) AS wanted ON spans.stream = wanted.stream AND spans.hour = wanted.hour
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
            arrayMap((a, b) -> multiIf(a > 0, a, b), by_1, by_2) AS by_partition,
            arrayMap((p, a, b) -> multiIf(p > 0, 0, a > 0, a, b), by_partition, by_3, by_4) AS by_device
        FROM edges
    )
SELECT claim, start_ms,
    covered_ms,
    if(level <= 2, used, 0) AS used_of_partition,
    if(level <= 2, cap, 1) AS partition_cap,
    if(level > 2, used, 0) AS used_of_device,
    if(level > 2, cap, 1) AS device_cap
FROM {metered:Identifier}
WHERE (claim, start_ms) NOT IN (SELECT claim, start_ms FROM several)
UNION ALL
SELECT claim, start_ms,
    arraySum(arrayMap((l, a, b) -> if(a > 0 OR b > 0, l, 0), lengths, by_partition, by_device)) AS covered_ms,
    arraySum(arrayMap((l, a) -> if(a > 0, l * (a - 1), 0), lengths, by_partition)) AS used_of_partition,
    greatest(1, partition_cap) AS partition_cap,
    arraySum(arrayMap((l, b) -> if(b > 0, l * (b - 1), 0), lengths, by_device)) AS used_of_device,
    greatest(1, device_cap) AS device_cap
FROM laid
