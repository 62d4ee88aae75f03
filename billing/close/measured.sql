-- One row: coverage and use of one holding, from the samples of its streams, if their hourly sums are not enough; columns
-- as in metered.sql.
-- Traps:   a sample covers from the later of ts - interval and the previous sample of its stream, usable or not. Only the
--          first sample of an hour can begin in the hour before; that part of it is in spilled.
-- $$placed: placed.sql.
INSERT INTO {metered:Identifier}
WITH
    wanted AS
    (
        SELECT claim, hour, start_ms, way, way.2 AS stream,
            toInt32(start_ms - toInt64(hour) * 3600000) AS begin, toInt32(end_ms - toInt64(hour) * 3600000) AS stop
        FROM {holdings:Identifier}
        ARRAY JOIN ways AS way
        WHERE (claim, start_ms) IN (SELECT claim, start_ms FROM {metered:Identifier} WHERE levels = 0)
    ),
    placed AS
    (
        $placed
    )
SELECT
    claim,
    start_ms,
    if(count() = 2 AND max(begins) >= min(ends) AND min(cap) = max(cap), 1, bitCount(groupBitOr(toUInt8(bitShiftLeft(1, level))))) AS levels,
    any(cap) AS cap_of_level,
    sum(covered) AS covered_ms,
    sum(usage) AS used
FROM
(
    SELECT
        claim,
        start_ms,
        way.1 AS level,
        way.4 AS cap,
        greatest(since[1], begin) AS begins,
        least(at[-1], stop) AS ends,
        arrayMap((s, e, r) -> if(r < 0, 0, toInt64(greatest(0, least(e, stop) - greatest(s, begin)))), since, at, rates) AS lengths,
        arraySum(lengths) AS covered,
        arraySum(arrayMap((l, r) -> l * least(r * way.3, way.4 * 1000000000), lengths, rates)) AS usage
    FROM placed
    INNER JOIN wanted ON placed.stream = wanted.stream AND placed.hour = wanted.hour
    WHERE covered > 0
    UNION ALL
    SELECT
        claim,
        start_ms,
        way.1 AS level,
        way.4 AS cap,
        greatest(since, begin) AS begins,
        least(at, stop) AS ends,
        emptyArrayInt64() AS lengths,
        toInt64(greatest(0, least(at, stop) - greatest(since, begin))) AS covered,
        covered * least(rate * way.3, way.4 * 1000000000) AS usage
    FROM {spilled:Identifier} AS spilled
    INNER JOIN wanted ON spilled.stream = wanted.stream AND spilled.hour = wanted.hour
    WHERE covered > 0
)
GROUP BY claim, start_ms
