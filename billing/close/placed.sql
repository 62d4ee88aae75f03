-- One row: an hour of a wanted stream, its samples as spans: (since, at] and rate (-1: not usable), in order. Included in
-- measured.sql and several.sql, which define what is wanted.
-- Units:   ms of the hour; a first sample may begin before 0. rates: billionths.
-- Params:  sample_hours; uniform_ms: the interval that all samples have, 0: they differ.
SELECT
    stream,
    hour,
    arrayMap(x -> toInt32(bitShiftRight(x, 32)), points) AS at,
    arrayMap(x -> toInt64(4294967295 - bitAnd(x, 4294967295)) - 1, points) AS rates,
    arrayPushFront(arrayPopBack(at), toInt32(-3600000)) AS previous,
    if({uniform_ms:UInt32} > 0,
        arrayMap((t, p) -> greatest(t - toInt32({uniform_ms:UInt32}), p), at, previous),
        arrayMap((t, x, p) -> greatest(t - toInt32(4294967295 - bitAnd(x, 4294967295)), p), at, lengths, previous)) AS since
FROM {sample_hours:Identifier}
WHERE (stream, hour) IN (SELECT stream, hour FROM wanted)
