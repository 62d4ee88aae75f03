-- One row: what a stream reported in an hour that stream_hours does not have in full, from its samples; nothing is proven
-- about how they lie.
-- Traps:   whether they have power or memory is not known, so assume that they may.
INSERT INTO {reported:Identifier} (stream, hour, usable, first_at, first_rate, first_length, last_at, longest_ms, powered, sized)
SELECT
    stream,
    hour,
    toInt64(arrayCount(x -> bitAnd(x, 4294967295) < 4294967295, points)) AS usable,
    toInt32(bitShiftRight(points[1], 32)) AS first_at,
    toInt64(4294967295 - bitAnd(points[1], 4294967295)) - 1 AS first_rate,
    toInt32({uniform_ms:UInt32} + if(empty(lengths), 0, 4294967295 - bitAnd(lengths[1], 4294967295))) AS first_length,
    toInt32(bitShiftRight(points[-1], 32)) AS last_at,
    toInt32({uniform_ms:UInt32} + arrayMax(arrayMap(x -> 4294967295 - bitAnd(x, 4294967295), lengths))) AS longest_ms,
    1 AS powered,
    1 AS sized
FROM {sample_hours:Identifier}
