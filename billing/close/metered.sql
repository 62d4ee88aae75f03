-- One row: coverage and use of one holding, as far as its streams' hourly sums are enough.
-- Units:   covered_ms; used = ms x units x 1e9, at most cap units in use at any time.
-- Shape:   levels = 1: done; more: several levels of streams measure the same time (see several.sql); 0: the samples
--          themselves are needed (see measured.sql).
--          Two levels that measure different times, one after the other, count as one.
-- Traps:   a stream's sums are enough for a holding if they add up and its samples, but for the first and the last, lie
--          within it (is_inside), or if only its first (its last) sample can reach into it. The cap must not bind.
CREATE TABLE {metered:Identifier} ENGINE = Memory AS
SELECT
    claim,
    start_ms,
    multiIf(max(is_unclear), 0, count() = 2 AND max(begins) >= min(ends) AND min(cap) = max(cap), 1, bitCount(groupBitOr(toUInt8(bitShiftLeft(1, level))))) AS levels,
    any(cap) AS cap_of_level,
    sum(covered) AS covered_ms,
    sum(usage) AS used
FROM
(
    SELECT
        claim,
        start_ms,
        level,
        cap,
        first_at - first_length AS first_since,
        greatest(first_since, begin) AS begins,
        least(last_at, stop) AS ends,
        adds_up AND highest * scale <= cap * 1000000000 AS is_plain,
        is_plain AND first_at >= begin AND last_at - shortest_ms <= stop AS is_inside,
        first_at >= stop AS only_first,
        is_plain AND last_at - shortest_ms <= begin AS only_last,
        NOT (is_inside OR only_first OR only_last) AS is_unclear,
        toInt64(multiIf(
            is_inside, if(first_rate < 0, 0, least(0, first_since - begin)),
            only_first, if(first_rate < 0, 0, stop - begins),
            0)) AS of_first,
        toInt64(multiIf(
            is_inside, if(last_rate < 0, 0, least(0, stop - last_at)),
            only_last, if(last_rate < 0, 0, ends - begin),
            0)) AS of_last,
        if(is_inside, usable_ms, 0) + of_first + of_last AS covered,
        if(is_inside, rates_ms * scale, 0)
            + of_first * least(first_rate * scale, cap * 1000000000)
            + of_last * least(last_rate * scale, cap * 1000000000) AS usage
    FROM {ways:Identifier} AS ways
    INNER JOIN {reported:Identifier} AS reported ON ways.stream = reported.stream AND ways.hour = reported.hour
    WHERE usable > 0 AND first_since < stop AND last_at > begin AND (is_unclear OR covered > 0)
    UNION ALL
    SELECT
        claim,
        start_ms,
        level,
        cap,
        0 AS first_since,
        greatest(since, begin) AS begins,
        least(at, stop) AS ends,
        true AS is_plain, true AS is_inside, false AS only_first, false AS only_last, false AS is_unclear,
        toInt64(0) AS of_first,
        toInt64(0) AS of_last,
        toInt64(greatest(0, ends - begins)) AS covered,
        covered * least(rate * scale, cap * 1000000000) AS usage
    FROM {spilled:Identifier} AS spilled
    INNER JOIN {ways:Identifier} AS ways ON spilled.stream = ways.stream AND spilled.hour = ways.hour
    WHERE covered > 0
)
GROUP BY claim, start_ms
