-- What each stream told in each hour, kept at ingest, so that the close need not read every sample again.
--
-- One row: samples of one stream that end in one hour; rows of one stream and hour are summed as parts are merged.
-- Units:   point = ts within the hour (ms, 1..3,600,000) << 32 | 0xFFFFFFFF - rate; rate = 0 for an unusable sample,
--          else 1 + utilization x 1e9, as in billing/close/sample_hours.sql.
--          reading = ts within the hour << 42 | microwatts or bytes, of samples that tell it (billing/energy/readings.sql).
-- Traps:   a record that came in two batches is counted twice. It shows: fewer slots are occupied than samples counted.
--          A kill between this table and touched_hours leaves them different: then batches tells another sum.
CREATE TABLE IF NOT EXISTS stream_hours
(
    hour         DateTime('UTC') COMMENT 'in which the samples end',
    stream       UInt64 COMMENT 'as in samples',
    samples      SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)),
    usable       SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)),
    rates        SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)) COMMENT 'sum of utilization x 1e9 of the usable',
    highest      SimpleAggregateFunction(max, UInt64) CODEC(ZSTD(1)) COMMENT 'greatest utilization x 1e9 of the usable',
    first        SimpleAggregateFunction(min, UInt128) CODEC(ZSTD(1)) COMMENT 'least point << 32 | 0xFFFFFFFF - interval in ms',
    last         SimpleAggregateFunction(max, UInt64) CODEC(ZSTD(1)) COMMENT 'greatest point',
    shortest_ms  SimpleAggregateFunction(min, UInt32) CODEC(ZSTD(1)) COMMENT 'shortest interval',
    longest_ms   SimpleAggregateFunction(max, UInt32) CODEC(ZSTD(1)) COMMENT 'longest interval',
    least_phase  SimpleAggregateFunction(min, UInt32) CODEC(ZSTD(1)) COMMENT 'ts modulo interval, ms',
    most_phase   SimpleAggregateFunction(max, UInt32) CODEC(ZSTD(1)),
    slots        SimpleAggregateFunction(groupBitOr, UInt64) CODEC(ZSTD(1)) COMMENT 'bit n: a sample ended in the n-th interval of the hour; the last bit stands for all further ones',
    marks        SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)) COMMENT 'sum of the hashes of ts within the hour (ms), modulo 2^64',
    powered      SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)) COMMENT 'samples that tell power',
    powers       SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)) COMMENT 'sum of microwatts of those',
    sized        SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)) COMMENT 'samples that tell memory',
    memories     SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)) COMMENT 'sum of bytes of those',
    first_power  SimpleAggregateFunction(min, UInt64) CODEC(ZSTD(1)) COMMENT 'least power reading; 2^64 - 1: none',
    last_power   SimpleAggregateFunction(max, UInt64) CODEC(ZSTD(1)) COMMENT 'greatest power reading; 0: none',
    first_memory SimpleAggregateFunction(min, UInt64) CODEC(ZSTD(1)) COMMENT 'least memory reading; 2^64 - 1: none',
    last_memory  SimpleAggregateFunction(max, UInt64) CODEC(ZSTD(1)) COMMENT 'greatest memory reading; 0: none',
    batches      SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)) COMMENT 'sum of the samples'' batches, modulo 2^64',
    ingested_on  SimpleAggregateFunction(max, Date) DEFAULT today() CODEC(ZSTD(1))
)
ENGINE = AggregatingMergeTree
PARTITION BY toYYYYMM(hour)
ORDER BY (hour, stream)
TTL ingested_on + INTERVAL 400 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1;

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
    sum(batch) AS batches
FROM samples
GROUP BY hour, stream;
