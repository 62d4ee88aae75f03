-- One row: what the samples of one stream that end in one hour say of power and memory, in order.
-- Shape:   points = 22 bits ts within the hour (ms, 1..3,600,000) | 38 bits 2^38 - 1 - power | 22 bits 2^22 - 1 - interval
--          (ms) | 44 bits memory, where power is 0 if unknown, else 1 + microwatts, and memory 0 if unknown, else
--          1 + bytes. Sorted: of several records of one instant the highest power comes first, the others cover nothing.
-- Reads:   each sample of the hours in {dirty} and, for what reaches back into them, of the hours after them, once.
-- Traps:   `unsupported` is said of utilization: a MIG device has none, yet it has power. It counts there if it is not 0.
--          Energy counts before power. 100 kW or 2 TiB and more are no readings.
CREATE TABLE {readings:Identifier} ENGINE = Memory AS
WITH
    (SELECT min(hour) FROM {dirty:Identifier}) AS first_hour,
    (SELECT max(hour) FROM {dirty:Identifier}) AS last_hour,
    toUnixTimestamp64Milli(ts) AS ms,
    toInt64(round(interval_seconds * 1000)) AS interval_ms,
    ifNull(round(energy_joules * 1000000 / interval_seconds), -1) AS by_energy,
    ifNull(round(toFloat64(power_watts) * 1000) * 1000, -1) AS by_power,
    if(by_energy >= 0 AND by_energy < 100000000000, by_energy, by_power) AS microwatts,
    microwatts >= (state = 'unsupported') AND microwatts < 100000000000 AND state <= 'unsupported' AS has_power,
    ifNull(memory_used_bytes, 2199023255552) AS bytes,
    bytes < 2199023255552 AND state <= 'unsupported' AS has_memory
SELECT
    stream,
    toUInt32(intDiv(ms - 1, 3600000)) AS hour,
    arraySort(groupArray(bitOr(
        bitOr(
            bitShiftLeft(toUInt128((ms - 1) % 3600000 + 1), 104),
            bitShiftLeft(toUInt128(274877906943 - if(has_power, 1 + toUInt64(if(has_power, microwatts, 0)), 0)), 66)),
        bitOr(
            bitShiftLeft(toUInt128(4194303 - toUInt64(interval_ms)), 44),
            toUInt128(if(has_memory, 1 + bytes, 0)))))) AS points
FROM samples
WHERE ts > fromUnixTimestamp64Milli(toInt64(first_hour) * 3600000, 'UTC')
    AND ts <= fromUnixTimestamp64Milli((toInt64(last_hour) + 2) * 3600000, 'UTC')
    AND (hour IN (SELECT hour FROM {dirty:Identifier})
        OR (hour - 1 IN (SELECT hour FROM {dirty:Identifier}) AND ms - interval_ms < toInt64(hour) * 3600000))
GROUP BY stream, hour
