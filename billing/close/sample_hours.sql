-- One row: the samples of one stream that end in one hour, in order.
-- Shape:   points = ts within the hour (ms, 1..3,600,000) << 32 | 0xFFFFFFFF - rate, where rate is 0 for an unusable
--          sample, else 1 + utilization x 1e9; lengths = 0xFFFFFFFF - interval in ms. Sorted by both together: of
--          several records of one instant the usable, highest, longest comes first, and the others cover nothing.
--          Powers, memories and spans: 22 bits ts within the hour, then 42 bits that sort the greatest value first: in powers
--          2^42 - 1 - (1 + microwatts), in memories 2^42 - 1 - (1 + bytes), where an unknown value takes 2^42 - 1, and in spans
--          2^42 - 1 - interval (ms). So of several records of one instant the greatest of each counts, and the others cover
--          nothing.
--          Where all intervals are equally long, {uniform_ms:UInt32} says so, and lengths and spans stay empty.
-- Reads:   the streams and hours in doubted, once, for what use, power and memory need of them.
-- Traps:   the state `unsupported` is about utilization: a MIG device has none, yet it has power, which counts if it is not
--          0. Energy is preferred to power. 100 kW or 2 TiB and more are not readings.
INSERT INTO {sample_hours:Identifier}
SELECT
    stream,
    hour,
    if({uniform_ms:UInt32} > 0, short, arrayMap(x -> toUInt64(bitShiftRight(x, 32)), long)) AS points,
    arrayMap(x -> toUInt64(bitAnd(x, 4294967295)), long) AS lengths,
    powers,
    memories,
    spans
FROM
(
    WITH
        toUInt64((toUnixTimestamp64Milli(ts) - 1) % 3600000 + 1) AS at,
        toUInt64(4294967295 - if(state <= 'idle', 1 + toUInt64(round(ifNull(utilization, 0) * 1000000000)), 0)) AS lowness,
        bitOr(bitShiftLeft(at, 32), lowness) AS point,
        toInt64(round(interval_seconds * 1000)) AS interval_ms,
        bitShiftLeft(at, 42) AS place,
        ifNull(round(energy_joules * 1000000 / interval_seconds), -1) AS by_energy,
        ifNull(round(toFloat64(power_watts) * 1000) * 1000, -1) AS by_power,
        if(by_energy >= 0 AND by_energy < 100000000000, by_energy, by_power) AS microwatts,
        microwatts >= (state = 'unsupported') AND microwatts < 100000000000 AND state <= 'unsupported' AS has_power,
        ifNull(memory_used_bytes, 2199023255552) AS bytes,
        bytes < 2199023255552 AND state <= 'unsupported' AS has_memory
    SELECT
        stream,
        toUInt32(intDiv(toUnixTimestamp64Milli(ts) - 1, 3600000)) AS hour,
        if({uniform_ms:UInt32} > 0, arraySort(groupArray(point)), emptyArrayUInt64()) AS short,
        if({uniform_ms:UInt32} > 0,
            CAST([], 'Array(UInt128)'),
            arraySort(groupArray(bitOr(
                bitShiftLeft(toUInt128(point), 32),
                toUInt128(4294967295 - toUInt64(interval_ms)))))) AS long,
        arraySort(groupArray(bitOr(place, toUInt64(4398046511103 - if(has_power, 1 + toInt64(microwatts), 0))))) AS powers,
        arraySort(groupArray(bitOr(place, toUInt64(4398046511103 - if(has_memory, 1 + toInt64(bytes), 0))))) AS memories,
        if({uniform_ms:UInt32} > 0, emptyArrayUInt64(), arraySort(groupArray(bitOr(place, toUInt64(4398046511103 - interval_ms))))) AS spans
    FROM samples
    WHERE ts > fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC') AND ts <= fromUnixTimestamp64Milli({to_ms:Int64}, 'UTC')
        AND batch GLOBAL IN {batches:Identifier}
        AND (stream, hour) GLOBAL IN (SELECT stream, hour FROM {doubted:Identifier})
    GROUP BY stream, hour
)
