-- One row: what the streams say of one holding, where one level of them alone speaks; else `levels` > 1 (see several.sql).
-- Units:   covered_ms; used = ms x units x 1e9, at most cap units in use at any time.
-- Traps:   a sample covers from the later of ts - interval and the previous sample of its stream, usable or not; one
--          that begins in the hour before is laid over that hour too (back = 1).
CREATE TABLE {metered:Identifier} ENGINE = Memory AS
WITH
    placed AS
    (
        SELECT
            this.stream AS stream,
            this.hour AS hour,
            arrayMap(x -> toInt32(bitShiftRight(x, 32)), points) AS at,
            arrayMap(x -> toInt64(4294967295 - bitAnd(x, 4294967295)) - 1, points) AS rates,
            arrayPushFront(arrayPopBack(at), toInt32(if(before.last = 0, -3600000, before.last - 3600000))) AS previous,
            if({uniform_ms:UInt32} > 0,
                arrayMap((t, p) -> greatest(t - toInt32({uniform_ms:UInt32}), p), at, previous),
                arrayMap((t, x, p) -> greatest(t - toInt32(4294967295 - bitAnd(x, 4294967295)), p), at, lengths, previous)) AS since
        FROM {sample_hours:Identifier} AS this
        LEFT JOIN
        (
            SELECT stream, hour + 1 AS hour, toInt32(bitShiftRight(points[-1], 32)) AS last FROM {sample_hours:Identifier}
        ) AS before ON this.stream = before.stream AND this.hour = before.hour
    ),
    shifted AS
    (
        SELECT stream, toUInt32(hour - back) AS hour, toInt32(back * 3600000) AS shift, at, since, rates
        FROM placed
        ARRAY JOIN if(since[1] < 0, [0, 1], [0]) AS back
    ),
    wanted AS
    (
        SELECT claim, hour, start_ms, way, way.2 AS stream,
            toInt32(start_ms - toInt64(hour) * 3600000) AS begin, toInt32(end_ms - toInt64(hour) * 3600000) AS stop
        FROM {holdings:Identifier}
        ARRAY JOIN ways AS way
    )
SELECT
    claim,
    start_ms,
    uniqExact(level) AS levels,
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
        arrayMap(
            (s, e, r) -> if(r < 0, 0, toInt64(greatest(0, least(e, stop - shift) - greatest(s, begin - shift)))),
            since, at, rates) AS lengths,
        arraySum(lengths) AS covered,
        arraySum(arrayMap((l, r) -> l * least(r * way.3, way.4 * 1000000000), lengths, rates)) AS usage
    FROM shifted
    INNER JOIN wanted ON shifted.stream = wanted.stream AND shifted.hour = wanted.hour
    WHERE covered > 0
)
GROUP BY claim, start_ms
