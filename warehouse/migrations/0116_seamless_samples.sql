-- The sums of an hour are exact, too, where samples are not equally long but each begins where the one before ends: those of
-- clocks that do not keep the grid. Sums of before have none of this (origins = 0), and are exact where samples are regular.

ALTER TABLE stream_hours
    ADD COLUMN IF NOT EXISTS usable_ms   SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)) COMMENT 'sum of the intervals of the usable',
    ADD COLUMN IF NOT EXISTS rates_ms    SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)) COMMENT 'sum of utilization x 1e9 x interval of the usable',
    ADD COLUMN IF NOT EXISTS powered_ms  SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)) COMMENT 'sum of the intervals of those that report power',
    ADD COLUMN IF NOT EXISTS powers_ms   SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)) COMMENT 'sum of microwatts x interval of those',
    ADD COLUMN IF NOT EXISTS sized_ms    SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)) COMMENT 'sum of the intervals of those that report memory',
    ADD COLUMN IF NOT EXISTS memories_ms SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)) COMMENT 'sum of bytes x interval of those',
    ADD COLUMN IF NOT EXISTS origins     SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)) COMMENT 'sum of the hashes of where the samples begin (ms after the hour began), modulo 2^64; 0: not known';

-- A sample that comes while there is no view has no sums: the close notices, and reads the samples of its hour.

DROP VIEW IF EXISTS stream_hours_of_samples;

CREATE MATERIALIZED VIEW IF NOT EXISTS stream_hours_of_samples TO stream_hours AS
WITH
    toUnixTimestamp64Milli(ts) - 1 AS before_ms,
    toUInt64(before_ms % 3600000 + 1) AS at,
    toUInt64(round(ifNull(utilization, 0) * 1000000000)) AS rate,
    state <= 'idle' AS is_usable,
    bitOr(bitShiftLeft(at, 32), toUInt64(4294967295 - if(is_usable, 1 + rate, 0))) AS point,
    toUInt32(round(interval_seconds * 1000)) AS length_ms,
    greatest(1, length_ms) AS step,
    ifNull(round(energy_joules * 1000000 / interval_seconds), -1) AS by_energy,
    ifNull(round(toFloat64(power_watts) * 1000) * 1000, -1) AS by_power,
    if(by_energy >= 0 AND by_energy < 100000000000, by_energy, by_power) AS microwatts,
    microwatts >= (state = 'unsupported') AND microwatts < 100000000000 AND state <= 'unsupported' AS has_power,
    ifNull(memory_used_bytes, 2199023255552) AS bytes,
    bytes < 2199023255552 AND state <= 'unsupported' AS has_memory,
    toUInt64(if(has_power, microwatts, 0)) AS power,
    if(has_memory, bytes, 0) AS memory,
    bitShiftLeft(at, 42) AS place
SELECT
    toDateTime(toUInt32(intDiv(before_ms, 3600000) * 3600), 'UTC') AS hour,
    stream,
    count() AS samples,
    countIf(is_usable) AS usable,
    sumIf(rate, is_usable) AS rates,
    maxIf(rate, is_usable) AS highest,
    min(bitOr(bitShiftLeft(toUInt128(point), 32), toUInt128(4294967295 - length_ms))) AS first,
    max(point) AS last,
    min(length_ms) AS shortest_ms,
    max(length_ms) AS longest_ms,
    min(toUInt32(at % step)) AS least_phase,
    max(toUInt32(at % step)) AS most_phase,
    groupBitOr(bitShiftLeft(toUInt64(1), least(intDiv(at - 1, step), 63))) AS slots,
    sum(cityHash64(at)) AS marks,
    countIf(has_power) AS powered,
    sum(power) AS powers,
    countIf(has_memory) AS sized,
    sum(memory) AS memories,
    min(if(has_power, bitOr(place, power), 18446744073709551615)) AS first_power,
    max(if(has_power, bitOr(place, power), 0)) AS last_power,
    min(if(has_memory, bitOr(place, memory), 18446744073709551615)) AS first_memory,
    max(if(has_memory, bitOr(place, memory), 0)) AS last_memory,
    sum(batch) AS batches,
    sum(if(is_usable, length_ms, 0)) AS usable_ms,
    sum(if(is_usable, rate * length_ms, 0)) AS rates_ms,
    sum(if(has_power, length_ms, 0)) AS powered_ms,
    sum(power * length_ms) AS powers_ms,
    sum(if(has_memory, length_ms, 0)) AS sized_ms,
    sum(memory * length_ms) AS memories_ms,
    sum(cityHash64(toUInt64(toInt64(at) - length_ms))) AS origins
FROM samples
GROUP BY hour, stream;
