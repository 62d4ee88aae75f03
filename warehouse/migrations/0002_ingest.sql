-- What ingest keeps about its own work.

-- One row: a batch that was written completely. A batch without a row is re-sent with the same token.
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
    ingested_at  DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC')
)
ENGINE = ReplacingMergeTree
ORDER BY (record_type, batch);

-- One row: something that cannot be counted, with the reason and what it was. Nothing vanishes.
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
SETTINGS non_replicated_deduplication_window = 10000;

-- One row: a batch put samples that end in this hour. The close compares the set of batches that touch an hour
-- with the set that it was closed with; no clock is involved.
CREATE TABLE IF NOT EXISTS touched_hours
(
    hour        DateTime('UTC') COMMENT 'hour in which the sample ends (a sample at 10:00:00.000 ends in 09)',
    batch       UInt64,
    rows        UInt64,
    reach_ms    UInt64 COMMENT 'how far the earliest interval reaches back before the hour',
    shortest_ms UInt32 COMMENT 'shortest interval',
    longest_ms  UInt32 COMMENT 'longest interval'
)
ENGINE = MergeTree
ORDER BY (hour, batch)
SETTINGS non_replicated_deduplication_window = 10000;

CREATE MATERIALIZED VIEW IF NOT EXISTS touched_hours_of_samples TO touched_hours AS
SELECT
    toStartOfHour(ts - INTERVAL 1 MILLISECOND) AS hour,
    batch,
    count() AS rows,
    max(toUInt64(greatest(0, toUnixTimestamp(hour) * 1000 - (toUnixTimestamp64Milli(ts) - interval_seconds * 1000)))) AS reach_ms,
    min(toUInt32(round(interval_seconds * 1000))) AS shortest_ms,
    max(toUInt32(round(interval_seconds * 1000))) AS longest_ms
FROM samples
GROUP BY hour, batch;
