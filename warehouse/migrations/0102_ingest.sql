-- Ingest: batches, rows that were refused or are held, what follows from samples as they arrive, and metrics that were pushed.

CREATE TABLE IF NOT EXISTS ingest_batches
(
    batch        UInt64 COMMENT 'hash of the record type and the content',
    record_type  LowCardinality(String),
    source       String COMMENT 'file path or sender',
    first_row    UInt64 COMMENT 'number of its first row in the source, from 1',
    rows_read    UInt64,
    rows_written UInt64,
    duplicates   UInt64,
    quarantined  UInt64,
    ingested_at  DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC'),
    sender       String COMMENT 'who pushed it, or who read the file'
)
ENGINE = ReplacingMergeTree
ORDER BY (record_type, batch)
COMMENT 'One row: a batch that was written completely; one without a row is sent again with the same token. Source: ingest.';

CREATE TABLE IF NOT EXISTS quarantine
(
    record_type    LowCardinality(String),
    source         String COMMENT 'file path or sender',
    row            UInt64 COMMENT 'number in the source, from 1, header not counted',
    reason         LowCardinality(String),
    detail         String,
    raw            String COMMENT 'the row as it came',
    batch          UInt64,
    quarantined_at DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC')
)
ENGINE = ReplacingMergeTree(quarantined_at)
ORDER BY (record_type, source, row, reason, raw)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'One row: a row that could not be read or stored, with the reason and its text. Source: ingest.';

CREATE TABLE IF NOT EXISTS held_rows
(
    sender      LowCardinality(String) COMMENT 'who pushed it',
    record_type LowCardinality(String),
    hash        FixedString(32) COMMENT 'of the row: sent again, it is not held twice',
    revision    UInt64 COMMENT 'microseconds since 1970 at which this was written',
    source      String COMMENT 'as of its batch',
    reason      LowCardinality(String) COMMENT 'why it is held',
    subject     String COMMENT 'the device, allocation or service that it is about, with its cluster',
    detail      String COMMENT 'the reason in words',
    ts          DateTime64(3, 'UTC') COMMENT 'the row''s',
    raw         String COMMENT 'the row, JSON',
    held_at     DateTime64(3, 'UTC'),
    state       LowCardinality(String) COMMENT 'held, accepted or refused',
    push        String COMMENT 'the held push that it was decided with',
    decided_at  DateTime64(3, 'UTC') COMMENT '1970: not yet',
    decided_by  String,
    why         String
)
ENGINE = ReplacingMergeTree(revision)
ORDER BY (sender, record_type, hash)
COMMENT 'One row: a revision of a pushed row that waits for approval, or waited; the newest counts. Source: ingest; decisions: people.';

CREATE TABLE IF NOT EXISTS sender_days
(
    day         Date,
    sender      LowCardinality(String) COMMENT 'empty: nobody that we know',
    record_type LowCardinality(String),
    outcome     LowCardinality(String) COMMENT 'stored, held, quarantined, out_of_place, refused (by a person) or denied (401, 403)',
    reason      LowCardinality(String) COMMENT 'why it was not stored',
    pushes      SimpleAggregateFunction(sum, UInt64),
    rows        SimpleAggregateFunction(sum, UInt64),
    last_at     SimpleAggregateFunction(max, DateTime64(3, 'UTC'))
)
ENGINE = AggregatingMergeTree
ORDER BY (day, sender, record_type, outcome, reason)
COMMENT 'One row: what a sender pushed on a day (UTC) of one record type, and the outcome; rows of a key are summed. Source: ingest.';

CREATE TABLE IF NOT EXISTS touched_hours
(
    hour        DateTime('UTC') COMMENT 'hour in which the sample ends (a sample at 10:00:00.000 ends in 09)',
    batch       UInt64,
    rows        UInt64,
    reach_ms    UInt64 COMMENT 'how far the earliest interval reaches back before the hour',
    shortest_ms UInt32 COMMENT 'shortest interval',
    longest_ms  UInt32 COMMENT 'longest interval',
    first_ms    UInt32 COMMENT 'how long after the hour began its first sample ends; 0: not reported'
)
ENGINE = MergeTree
ORDER BY (hour, batch)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'One row: a batch put samples that end in this hour. Units: ms. Source: the view touched_hours_of_samples, at ingest.';

CREATE MATERIALIZED VIEW IF NOT EXISTS touched_hours_of_samples TO touched_hours AS
SELECT
    toStartOfHour(ts - INTERVAL 1 MILLISECOND) AS hour,
    batch,
    count() AS rows,
    max(toUInt64(greatest(0, toUnixTimestamp(hour) * 1000 - (toUnixTimestamp64Milli(ts) - interval_seconds * 1000)))) AS reach_ms,
    min(toUInt32(round(interval_seconds * 1000))) AS shortest_ms,
    max(toUInt32(round(interval_seconds * 1000))) AS longest_ms,
    min(toUInt32(toUnixTimestamp64Milli(ts) - toUnixTimestamp(hour) * 1000)) AS first_ms
FROM samples
GROUP BY hour, batch;

-- Units:   point = ts within the hour (ms, 1..3,600,000) << 32 | 0xFFFFFFFF - rate; rate = 0 for an unusable sample,
--          else 1 + utilization x 1e9, as in billing/close/sample_hours.sql.
--          reading = ts within the hour << 42 | microwatts or bytes, of samples that report it (billing/energy/readings.sql).
-- Traps:   a record that came in two batches is counted twice. It shows: fewer slots are occupied than samples counted.
--          A kill between this table and touched_hours leaves them different: then batches has another sum.
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
    powered      SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)) COMMENT 'samples that report power',
    powers       SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)) COMMENT 'sum of microwatts of those',
    sized        SimpleAggregateFunction(sum, UInt64) CODEC(ZSTD(1)) COMMENT 'samples that report memory',
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
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1
COMMENT 'One row: sums over the samples of one stream that end in one hour; rows of a key are summed. Units: in the columns'' comments. Source: the view stream_hours_of_samples, at ingest.';

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

CREATE TABLE IF NOT EXISTS pushed_points
(
    sender      LowCardinality(String) COMMENT 'who pushed it',
    target      LowCardinality(String) COMMENT 'what was scraped: JSON [way, cluster, job, instance]',
    ts          DateTime64(3, 'UTC')   CODEC(DoubleDelta, ZSTD(1)),
    name        LowCardinality(String) COMMENT 'of the metric, as the source has it',
    labels      String                 CODEC(ZSTD(1)) COMMENT 'JSON, by name',
    value       Float64                CODEC(ZSTD(1)),
    stale       Bool COMMENT 'the series ends here',
    push        UInt64                 CODEC(ZSTD(1)),
    received_at DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC') CODEC(DoubleDelta, ZSTD(1))
)
ENGINE = MergeTree
PARTITION BY toStartOfHour(received_at)
ORDER BY (sender, target, ts, name, labels)
TTL toDateTime(received_at) + INTERVAL 6 HOUR
SETTINGS ttl_only_drop_parts = 1
COMMENT 'One row: one value of one pushed series at one instant; the same may come with several pushes. Source: remote write and OTLP.';

CREATE TABLE IF NOT EXISTS pushed_instants
(
    sender      LowCardinality(String),
    target      LowCardinality(String),
    ts          DateTime64(3, 'UTC'),
    push        UInt64,
    assembled   Bool COMMENT 'rows were made of it, and are in the store',
    by          UUID COMMENT 'who assembled it',
    received_at DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC')
)
ENGINE = MergeTree
PARTITION BY toStartOfHour(received_at)
ORDER BY (sender, target, ts, push)
TTL toDateTime(received_at) + INTERVAL 6 HOUR
SETTINGS ttl_only_drop_parts = 1
COMMENT 'One row: a push has points of a target at an instant, or rows were made of them. Written after the points, it acknowledges them. Source: remote write and OTLP.';

CREATE TABLE IF NOT EXISTS pushed_memory
(
    sender        LowCardinality(String),
    kind          Enum8('units' = 1, 'devices' = 2),
    about         String COMMENT 'of units: the target, as in pushed_points; of devices: the cluster',
    memory        String CODEC(ZSTD(1)) COMMENT 'JSON',
    remembered_at DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC')
)
ENGINE = ReplacingMergeTree(remembered_at)
ORDER BY (sender, kind, about)
TTL toDateTime(remembered_at) + INTERVAL 30 DAY
COMMENT 'One row: what is known of a target''s units, or of the devices that a sender''s exporters reported; the newest counts. Source: the assembly of pushed metrics.';
