-- One row: power and memory in the samples of one stream that end in one hour, in order; only for streams and hours whose
-- sums are not enough.
-- Shape:   22 bits ts within the hour (ms, 1..3,600,000), then 42 bits that sort the greatest value first: in powers 2^42 -
--          1 - (1 + microwatts), in memories 2^42 - 1 - (1 + bytes), where an unknown value takes 2^42 - 1, and in lengths
--          2^42 - 1 - interval (ms); where all are equally long, {uniform_ms:UInt32} says so, and lengths are empty. So of
--          several records of one instant the greatest counts, and the others cover nothing.
-- Reads:   the samples of the unclear hours and, because they may reach back, of the hours after them, once.
-- Traps:   the state `unsupported` is about utilization: a MIG device has none, yet it has power, which counts if it is not
--          0. Energy is preferred to power. 100 kW or 2 TiB and more are not readings.
CREATE TABLE {readings:Identifier} ENGINE = Memory AS
WITH
    toUnixTimestamp64Milli(ts) AS ms,
    toInt64(round(interval_seconds * 1000)) AS interval_ms,
    bitShiftLeft(toUInt64((ms - 1) % 3600000 + 1), 42) AS at,
    ifNull(round(energy_joules * 1000000 / interval_seconds), -1) AS by_energy,
    ifNull(round(toFloat64(power_watts) * 1000) * 1000, -1) AS by_power,
    if(by_energy >= 0 AND by_energy < 100000000000, by_energy, by_power) AS microwatts,
    microwatts >= (state = 'unsupported') AND microwatts < 100000000000 AND state <= 'unsupported' AS has_power,
    ifNull(memory_used_bytes, 2199023255552) AS bytes,
    bytes < 2199023255552 AND state <= 'unsupported' AS has_memory
SELECT
    stream,
    toUInt32(intDiv(ms - 1, 3600000)) AS hour,
    arraySort(groupArray(bitOr(at, toUInt64(4398046511103 - if(has_power, 1 + toInt64(microwatts), 0))))) AS powers,
    arraySort(groupArray(bitOr(at, toUInt64(4398046511103 - if(has_memory, 1 + toInt64(bytes), 0))))) AS memories,
    if({uniform_ms:UInt32} > 0, emptyArrayUInt64(), arraySort(groupArray(bitOr(at, toUInt64(4398046511103 - interval_ms))))) AS lengths
FROM samples
WHERE ts > fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC') AND ts <= fromUnixTimestamp64Milli({to_ms:Int64}, 'UTC')
    AND batch GLOBAL IN {batches:Identifier}
    AND (stream, hour) GLOBAL IN
    (
        SELECT stream, hour FROM {measured:Identifier} WHERE is_unclear
        UNION ALL
        SELECT stream, toUInt32(hour + 1) AS hour FROM {measured:Identifier} WHERE is_unclear
    )
GROUP BY stream, hour
