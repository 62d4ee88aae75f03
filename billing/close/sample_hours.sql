-- One row: the samples of one stream that end in one hour, in order.
-- Shape:   points = ts within the hour (ms, 1..3,600,000) << 32 | 0xFFFFFFFF - rate, where rate is 0 for an unusable
--          sample, else 1 + utilization x 1e9; lengths = 0xFFFFFFFF - interval in ms. Sorted by both together: of
--          several records of one instant the usable, highest, longest comes first, and the others cover nothing.
--          Where all intervals are equally long, {uniform_ms:UInt32} says so, and lengths stay empty.
-- Reads:   the streams and hours in doubted.
INSERT INTO {sample_hours:Identifier}
SELECT
    stream,
    hour,
    if({uniform_ms:UInt32} > 0, short, arrayMap(x -> toUInt64(bitShiftRight(x, 32)), long)) AS points,
    arrayMap(x -> toUInt64(bitAnd(x, 4294967295)), long) AS lengths
FROM
(
    WITH
        toUInt64((toUnixTimestamp64Milli(ts) - 1) % 3600000 + 1) AS at,
        toUInt64(4294967295 - if(state <= 'idle', 1 + toUInt64(round(ifNull(utilization, 0) * 1000000000)), 0)) AS lowness,
        bitOr(bitShiftLeft(at, 32), lowness) AS point
    SELECT
        stream,
        toUInt32(intDiv(toUnixTimestamp64Milli(ts) - 1, 3600000)) AS hour,
        if({uniform_ms:UInt32} > 0, arraySort(groupArray(point)), emptyArrayUInt64()) AS short,
        if({uniform_ms:UInt32} > 0,
            CAST([], 'Array(UInt128)'),
            arraySort(groupArray(bitOr(
                bitShiftLeft(toUInt128(point), 32),
                toUInt128(4294967295 - toUInt64(round(interval_seconds * 1000))))))) AS long
    FROM samples
    WHERE ts > fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC') AND ts <= fromUnixTimestamp64Milli({to_ms:Int64}, 'UTC')
        AND batch GLOBAL IN {batches:Identifier}
        AND (stream, hour) GLOBAL IN (SELECT stream, hour FROM {doubted:Identifier})
    GROUP BY stream, hour
)
