-- One row: power and memory of one stream in a stretch for which its hourly sums are not enough, from its samples; columns
-- as in measured.sql.
-- Traps:   a reading covers from the later of ts - interval and the previous sample of its stream, usable or not. Only the
--          first sample of an hour can begin in the hour before.
INSERT INTO {measured:Identifier} (state_id, claim, start_ms, level, stream, cap, of_power, is_unclear, power_ms, nanojoules, memory_ms, byte_ms, begins, ends)
WITH
    wanted AS
    (
        SELECT state_id, claim, start_ms, level, stream, cap, of_power, hour, begin, stop FROM {measured:Identifier} WHERE is_unclear
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
                arrayMap((t, x, p) -> greatest(t - toInt32(4398046511103 - bitAnd(x, 4398046511103)), p), at, spans, previous)) AS since,
            arrayMap(x -> toInt64(4398046511102) - toInt64(bitAnd(x, 4398046511103)), powers) AS power,
            arrayMap(x -> toInt64(4398046511102) - toInt64(bitAnd(x, 4398046511103)), memories) AS bytes
        FROM {sample_hours:Identifier}
        WHERE (stream, hour) IN (SELECT stream, hour FROM wanted)
    ),
    firsts AS
    (
        SELECT stream, hour,
            toInt32(bitShiftRight(powers[-1], 42)) AS last,
            toInt32(bitShiftRight(powers[1], 42))
                - if({uniform_ms:UInt32} > 0, toInt32({uniform_ms:UInt32}), toInt32(4398046511103 - bitAnd(spans[1], 4398046511103))) AS since,
            toInt64(4398046511102) - toInt64(bitAnd(powers[1], 4398046511103)) AS power,
            toInt64(4398046511102) - toInt64(bitAnd(memories[1], 4398046511103)) AS bytes
        FROM {sample_hours:Identifier}
    )
SELECT
    state_id,
    claim,
    start_ms,
    level,
    any(stream) AS stream,
    any(cap) AS cap,
    any(of_power) AS of_power,
    false AS is_unclear,
    sum(covered_power) AS power_ms,
    sum(energy) AS nanojoules,
    sum(covered_memory) AS memory_ms,
    sum(held) AS byte_ms,
    minIf(starts, covered_power > 0) AS begins,
    maxIf(finishes, covered_power > 0) AS ends
FROM
(
    SELECT
        state_id, claim, start_ms, level, stream, cap, of_power, begin, stop,
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
        state_id, claim, start_ms, level, stream, cap, of_power, begin, stop,
        emptyArrayInt64() AS lengths, emptyArrayInt64() AS by_power,
        if(power < 0, 0, length) AS covered_power,
        if(power < 0, 0, length * power) AS energy,
        if(bytes < 0, 0, length) AS covered_memory,
        if(bytes < 0, 0, length * bytes) AS held,
        greatest(from_before, begin) AS starts,
        stop AS finishes
    FROM
    (
        SELECT state_id, claim, level, cap, of_power, wanted.stream AS stream, wanted.start_ms AS start_ms, begin, stop, power, bytes,
            toInt32(greatest(since + 3600000, before.last)) AS from_before,
            toInt64(greatest(0, stop - greatest(from_before, begin))) AS length
        FROM (SELECT stream, toUInt32(hour - 1) AS hour, since, power, bytes FROM firsts WHERE since < 0) AS this
        INNER JOIN wanted ON this.stream = wanted.stream AND this.hour = wanted.hour
        ANY LEFT JOIN (SELECT stream, hour, last FROM firsts) AS before ON this.stream = before.stream AND this.hour = before.hour
        WHERE length > 0
    )
)
GROUP BY state_id, claim, start_ms, level
