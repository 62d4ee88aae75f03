-- One row: what one stream says of power and memory in a stretch of an hour, from start_ms on, that a segment or a
-- holding asks about.
-- Units:   power_ms, memory_ms = covered; nanojoules; byte_ms; begins, ends = first and last ms with power in the hour.
-- Traps:   a reading covers from the later of ts - interval and the previous sample of its stream, whatever that says.
--          Only the first sample of an hour can begin in the hour before.
CREATE TABLE {measured:Identifier} ENGINE = Memory AS
WITH
    wanted AS
    (
        SELECT DISTINCT stream, hour, start_ms,
            toInt32(start_ms - toInt64(hour) * 3600000) AS begin, toInt32(end_ms - toInt64(hour) * 3600000) AS stop
        FROM
        (
            SELECT cityHash64(cluster, device_id, '', '') AS stream, hour, start_ms, end_ms
            FROM (SELECT state_id, hour, start_ms, end_ms FROM {segments:Identifier}) AS segments
            INNER JOIN (SELECT state_id, cluster, device_id FROM {states:Identifier}) AS states ON segments.state_id = states.state_id
            UNION ALL
            SELECT way.2 AS stream, hour, start_ms, end_ms
            FROM {holdings:Identifier}
            ARRAY JOIN ways AS way
        )
    ),
    placed AS
    (
        SELECT
            stream,
            hour,
            arrayMap(x -> toInt32(bitShiftRight(x, 42)), powers) AS at,
            arrayPushFront(arrayPopBack(at), toInt32(-3600000)) AS previous,
            if({uniform_ms:UInt32} > 0,
                arrayMap((t, p) -> greatest(t - toInt32({uniform_ms:UInt32}), p), at, previous),
                arrayMap((t, x, p) -> greatest(t - toInt32(4398046511103 - bitAnd(x, 4398046511103)), p), at, lengths, previous)) AS since,
            arrayMap(x -> toInt64(4398046511102) - toInt64(bitAnd(x, 4398046511103)), powers) AS power,
            arrayMap(x -> toInt64(4398046511102) - toInt64(bitAnd(x, 4398046511103)), memories) AS bytes
        FROM {readings:Identifier}
    ),
    firsts AS
    (
        SELECT stream, hour,
            toInt32(bitShiftRight(powers[-1], 42)) AS last,
            toInt32(bitShiftRight(powers[1], 42))
                - if({uniform_ms:UInt32} > 0, toInt32({uniform_ms:UInt32}), toInt32(4398046511103 - bitAnd(lengths[1], 4398046511103))) AS since,
            toInt64(4398046511102) - toInt64(bitAnd(powers[1], 4398046511103)) AS power,
            toInt64(4398046511102) - toInt64(bitAnd(memories[1], 4398046511103)) AS bytes
        FROM {readings:Identifier}
    )
SELECT
    stream,
    start_ms,
    sum(covered_power) AS power_ms,
    sum(energy) AS nanojoules,
    sum(covered_memory) AS memory_ms,
    sum(held) AS byte_ms,
    minIf(starts, covered_power > 0) AS begins,
    maxIf(finishes, covered_power > 0) AS ends
FROM
(
    SELECT
        stream, start_ms,
        arrayMap((s, e) -> toInt64(greatest(0, least(e, stop) - greatest(s, begin))), since, at) AS lengths,
        arrayMap((l, v) -> if(v < 0, 0, l), lengths, power) AS by_power,
        arraySum(by_power) AS covered_power,
        arraySum((l, v) -> l * v, by_power, power) AS energy,
        arraySum((l, v) -> if(v < 0, 0, l), lengths, bytes) AS covered_memory,
        arraySum((l, v) -> if(v < 0, 0, l * v), lengths, bytes) AS held,
        greatest(since[arrayFirstIndex(l -> l > 0, by_power)], begin) AS starts,
        least(at[arrayLastIndex(l -> l > 0, by_power)], stop) AS finishes
    FROM placed
    INNER JOIN wanted ON placed.stream = wanted.stream AND placed.hour = wanted.hour
    WHERE covered_power > 0 OR covered_memory > 0
    UNION ALL
    SELECT
        stream, start_ms,
        emptyArrayInt64() AS lengths, emptyArrayInt64() AS by_power,
        if(power < 0, 0, length) AS covered_power,
        if(power < 0, 0, length * power) AS energy,
        if(bytes < 0, 0, length) AS covered_memory,
        if(bytes < 0, 0, length * bytes) AS held,
        greatest(from_before, begin) AS starts,
        stop AS finishes
    FROM
    (
        SELECT wanted.stream AS stream, wanted.start_ms AS start_ms, begin, stop, power, bytes,
            toInt32(greatest(since + 3600000, before.last)) AS from_before,
            toInt64(greatest(0, stop - greatest(from_before, begin))) AS length
        FROM (SELECT stream, toUInt32(hour - 1) AS hour, since, power, bytes FROM firsts WHERE since < 0) AS this
        INNER JOIN wanted ON this.stream = wanted.stream AND this.hour = wanted.hour
        ANY LEFT JOIN (SELECT stream, hour, last FROM firsts) AS before ON this.stream = before.stream AND this.hour = before.hour
        WHERE length > 0
    )
)
GROUP BY stream, start_ms
