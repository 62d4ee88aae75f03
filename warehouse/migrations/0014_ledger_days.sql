-- The ledger by days, so that a page reads a month of days and not of hours. Derived: it says what the books say already.

-- One row: what a holder held of a device in a day of a zone at one share and price, or the platform's own time on it: the
-- sum of the ledger's entries that begin in that day. Columns as the ledger's. In force are those of summed_days.
CREATE TABLE IF NOT EXISTS ledger_days
(
    zone                  LowCardinality(String) COMMENT 'IANA name',
    day                   DateTime('UTC') COMMENT 'its start',
    version               UInt64 COMMENT 'of the sums; those that summed_days does not name were never finished',
    written_at            DateTime('UTC') DEFAULT now('UTC'),
    cluster               LowCardinality(String),
    node                  LowCardinality(String),
    device_id             LowCardinality(String),
    model                 LowCardinality(String),
    pool                  LowCardinality(String),
    device_units          UInt32,
    tenant                LowCardinality(String),
    project               LowCardinality(String),
    queue                 LowCardinality(String),
    workload_id           String CODEC(ZSTD(1)),
    is_held               Bool COMMENT 'false: the platform''s own time',
    partition_profile     LowCardinality(String),
    units                 UInt32,
    charge_period_start   DateTime64(3, 'UTC') CODEC(ZSTD(1)) COMMENT 'of the first entry',
    charge_period_end     DateTime64(3, 'UTC') CODEC(ZSTD(1)) COMMENT 'of the last entry',
    sku                   LowCardinality(String),
    list_unit_price       Nullable(Decimal(18, 9)),
    contracted_unit_price Nullable(Decimal(18, 9)),
    billing_currency      LowCardinality(String),
    used_unit_ms          Decimal(38, 6) CODEC(ZSTD(1)),
    idle_unit_ms          Decimal(38, 6) CODEC(ZSTD(1)),
    unmetered_unit_ms     Int64 CODEC(ZSTD(1)),
    unallocated_unit_ms   Int64 CODEC(ZSTD(1)),
    unavailable_unit_ms   Int64 CODEC(ZSTD(1))
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(day)
ORDER BY (zone, day, version, tenant, cluster, device_id, workload_id);

-- One row: a day whose sums are complete. They hold for as long as `content` is that of the hours in force.
CREATE TABLE IF NOT EXISTS summed_days
(
    zone       LowCardinality(String),
    day        DateTime('UTC'),
    version    UInt64,
    content    UInt64 COMMENT 'fingerprint of the hours and runs that were summed',
    written_at DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC')
)
ENGINE = ReplacingMergeTree(written_at)
ORDER BY (zone, day);
