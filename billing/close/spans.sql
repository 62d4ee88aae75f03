-- One row: what usable samples of one stream cover of one hour; a span that reaches into the hour before is there too.
-- Units:   ms relative to the start of the hour, [start, end); rates: utilization x 1e9.
-- Traps:   a sample covers from the later of ts - interval and the previous sample of the stream, usable or not.
CREATE TABLE {spans:Identifier} ENGINE = Memory AS
WITH
    4294967295 AS low,
    placed AS
    (
        SELECT
            this.stream AS stream,
            this.hour AS hour,
            arrayMap(x -> toInt32(bitShiftRight(x, 32)), points) AS at,
            arrayMap(x -> toInt64(low - bitAnd(x, low)) - 1, points) AS rates,
            arrayPushFront(arrayPopBack(at), toInt32(if(before.last = 0, -3600000, before.last - 3600000))) AS previous,
            arrayMap((t, x, p) -> toInt32(greatest(t - toInt64(low - bitAnd(x, low)), p)), at, lengths, previous) AS since
        FROM {sample_hours:Identifier} AS this
        LEFT JOIN
        (
            SELECT stream, hour + 1 AS hour, toInt32(bitShiftRight(points[-1], 32)) AS last FROM {sample_hours:Identifier}
        ) AS before ON this.stream = before.stream AND this.hour = before.hour
    ),
    shifted AS
    (
        SELECT
            stream,
            toUInt32(hour - back) AS hour,
            arrayMap(x -> toInt32(x + back * 3600000), since) AS starts,
            arrayMap(x -> toInt32(x + back * 3600000), at) AS ends,
            rates,
            arrayMap((s, e, r) -> r >= 0 AND s < e AND s < 3600000, starts, ends, rates) AS kept
        FROM placed
        ARRAY JOIN if(since[1] < 0, [0, 1], [0]) AS back
    )
SELECT
    stream,
    hour,
    arrayFilter((x, ok) -> ok, starts, kept) AS span_starts,
    arrayFilter((x, ok) -> ok, ends, kept) AS span_ends,
    arrayFilter((x, ok) -> ok, rates, kept) AS span_rates
FROM shifted
WHERE has(kept, 1)
