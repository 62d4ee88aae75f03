-- One row: what a stream reported in an hour, from its samples: in hours that stream_hours does not have in full, and where
-- its sums are not exact. It replaces the row that is there (replaced.sql).
-- Shape:   columns as in reported.sql, but each sample covers from the later of ts - interval and the sample before it, and
--          shortest_ms is what the last one covers. Of several records of one instant the usable, highest, longest comes
--          first, of power and memory the greatest, and the others cover nothing.
--          adds_up: unless records of one instant differ in length, where what comes first is not one record.
-- Reads:   points = ts within the hour << 32 | 0xFFFFFFFF - rate, powers and memories = ts << 42 | 2^42 - 1 - value, where
--          rate and value are 0 for none, else 1 more; lengths = ts << 32 | 0xFFFFFFFF - interval in ms. Where all intervals
--          are equally long, {uniform_ms:UInt32} says so, and lengths are empty.
INSERT INTO {reported:Identifier} (
    stream, hour, is_anew, usable, highest, first_at, first_rate, first_length, last_at, last_rate, shortest_ms, longest_ms, adds_up,
    usable_ms, rates_ms, powered, powered_ms, powers_ms, sized, sized_ms, memories_ms,
    first_power, last_power, power_since, is_since_known, first_memory, last_memory)
WITH
    4294967295 AS low_32,
    4398046511103 AS low_42,
    told AS
    (
        WITH
            toUnixTimestamp64Milli(ts) AS ms,
            toUInt64((ms - 1) % 3600000 + 1) AS place,
            toUInt64(low_32 - toUInt64(round(interval_seconds * 1000))) AS shortness,
            bitOr(
                bitShiftLeft(place, 32),
                toUInt64(low_32 - if(state <= 'idle', 1 + toUInt64(round(ifNull(utilization, 0) * 1000000000)), 0))) AS point,
            ifNull(round(energy_joules * 1000000 / interval_seconds), -1) AS by_energy,
            ifNull(round(toFloat64(power_watts) * 1000) * 1000, -1) AS by_power,
            if(by_energy >= 0 AND by_energy < 100000000000, by_energy, by_power) AS microwatts,
            microwatts >= (state = 'unsupported') AND microwatts < 100000000000 AND state <= 'unsupported' AS has_power,
            ifNull(memory_used_bytes, 2199023255552) AS size,
            size < 2199023255552 AND state <= 'unsupported' AS has_memory
        SELECT
            stream,
            toUInt32(intDiv(ms - 1, 3600000)) AS hour,
            arraySort(groupArray(point)) AS points,
            arraySort(groupArray(bitOr(bitShiftLeft(place, 42), toUInt64(low_42 - if(has_power, 1 + toInt64(microwatts), 0))))) AS powers,
            arraySort(groupArray(bitOr(bitShiftLeft(place, 42), toUInt64(low_42 - if(has_memory, 1 + toInt64(size), 0))))) AS memories,
            if({uniform_ms:UInt32} > 0, emptyArrayUInt64(), arraySort(groupArray(bitOr(bitShiftLeft(place, 32), shortness)))) AS lengths,
            if({uniform_ms:UInt32} > 0, toUInt128(0), min(bitOr(bitShiftLeft(toUInt128(point), 32), toUInt128(shortness)))) AS first_sample
        FROM samples
        WHERE ts > fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC') AND ts <= fromUnixTimestamp64Milli({to_ms:Int64}, 'UTC')
            AND batch GLOBAL IN {batches:Identifier}
            AND (hour IN {incomplete:Array(UInt32)} OR (stream, hour) GLOBAL IN (SELECT stream, hour FROM {reported:Identifier} WHERE NOT adds_up))
        GROUP BY stream, hour
    ),
    placed AS
    (
        SELECT
            stream, hour, first_sample,
            arrayMap(x -> toInt64(bitShiftRight(x, 32)), points) AS at,
            arrayMap(x -> toInt64(low_32 - bitAnd(x, low_32)) - 1, points) AS rates,
            arrayMap(x -> toInt64(low_42 - bitAnd(x, low_42)) - 1, powers) AS watts,
            arrayMap(x -> toInt64(low_42 - bitAnd(x, low_42)) - 1, memories) AS bytes,
            if({uniform_ms:UInt32} > 0,
                arrayWithConstant(length(at), toInt64({uniform_ms:UInt32})),
                arrayMap(x -> toInt64(low_32 - bitAnd(x, low_32)), lengths)) AS intervals,
            arrayMap((d, i) -> least(d, i), arrayPushFront(arrayPopFront(arrayDifference(at)), intervals[1]), intervals) AS covered,
            arrayFirstIndex(t -> t = at[-1], at) AS last_place,
            arrayFirstIndex(w -> w >= 0, watts) AS power_place,
            arrayLastIndex(w -> w >= 0, watts) AS last_powered
        FROM told
    )
SELECT
    stream,
    hour,
    true AS is_anew,
    toInt64(arrayCount(r -> r >= 0, rates)) AS usable,
    arrayMax(rates) AS highest,
    at[1] AS first_at,
    rates[1] AS first_rate,
    if({uniform_ms:UInt32} > 0, toInt64({uniform_ms:UInt32}), toInt64(low_32 - toUInt64(bitAnd(first_sample, low_32)))) AS first_length,
    at[-1] AS last_at,
    rates[last_place] AS last_rate,
    covered[last_place] AS shortest_ms,
    arrayMax(intervals) AS longest_ms,
    {uniform_ms:UInt32} > 0 OR length(arrayDistinct(at)) = length(at) AS adds_up,
    arraySum((c, r) -> if(r < 0, 0, c), covered, rates) AS usable_ms,
    arraySum((c, r) -> if(r < 0, 0, c * r), covered, rates) AS rates_ms,
    toInt64(arrayCount(w -> w >= 0, watts)) AS powered,
    arraySum((c, w) -> if(w < 0, 0, c), covered, watts) AS powered_ms,
    arraySum((c, w) -> if(w < 0, 0, c * w), covered, watts) AS powers_ms,
    toInt64(arrayCount(b -> b >= 0, bytes)) AS sized,
    arraySum((c, b) -> if(b < 0, 0, c), covered, bytes) AS sized_ms,
    arraySum((c, b) -> if(b < 0, 0, c * b), covered, bytes) AS memories_ms,
    if(powered > 0, bitOr(bitShiftLeft(toUInt64(at[power_place]), 42), toUInt64(watts[power_place])), bitNot(toUInt64(0))) AS first_power,
    if(powered > 0, bitOr(
        bitShiftLeft(toUInt64(at[last_powered]), 42),
        toUInt64(watts[arrayFirstIndex(t -> t = at[last_powered], at)])), 0) AS last_power,
    if(powered > 0, at[power_place] - covered[power_place], 0) AS power_since,
    true AS is_since_known,
    if(bytes[1] < 0, bitNot(toUInt64(0)), bitOr(bitShiftLeft(toUInt64(first_at), 42), toUInt64(bytes[1]))) AS first_memory,
    if(bytes[last_place] < 0, 0, bitOr(bitShiftLeft(toUInt64(last_at), 42), toUInt64(bytes[last_place]))) AS last_memory
FROM placed
