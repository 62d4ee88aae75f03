-- Everything derived: it can be dropped and computed again from the facts.

-- One row: an allocation held units of a device during [start_at, end_at). Rewritten by every close.
CREATE TABLE IF NOT EXISTS allocations
(
    claim             UInt64 COMMENT 'identifies the row within one close',
    cluster           LowCardinality(String),
    source            LowCardinality(String),
    allocation_id     String,
    workload_id       String,
    tenant            LowCardinality(String),
    project           LowCardinality(String),
    queue             LowCardinality(String),
    preemptible       Bool,
    node              LowCardinality(String),
    device_id         LowCardinality(String),
    partition_id      LowCardinality(String),
    partition_profile LowCardinality(String),
    units             UInt32,
    start_at          DateTime64(3, 'UTC'),
    end_at            Nullable(DateTime64(3, 'UTC')) COMMENT 'null: still held',
    estimated         LowCardinality(String) COMMENT 'empty, or what was estimated and how'
)
ENGINE = MergeTree
ORDER BY (cluster, device_id, start_at, claim);

-- One row: a claim or device row that the books refuse, and why. Rewritten by every close.
CREATE TABLE IF NOT EXISTS refused_claims
(
    reason        LowCardinality(String),
    detail        String,
    cluster       LowCardinality(String),
    allocation_id String,
    tenant        LowCardinality(String),
    device_id     LowCardinality(String),
    partition_id  LowCardinality(String),
    units         UInt32,
    start_at      DateTime64(3, 'UTC'),
    end_at        Nullable(DateTime64(3, 'UTC'))
)
ENGINE = MergeTree
ORDER BY (reason, cluster, allocation_id, start_at);

-- One row: for one hour, device and holder at one share, price and tenant: how many unit-milliseconds of each kind.
-- The platform's own time (unallocated, unavailable) has an empty allocation_id. Rows become visible when
-- closed_hours names their run; read the view `ledger`.
CREATE TABLE IF NOT EXISTS ledger_entries
(
    run                   UInt64,
    hour                  DateTime('UTC')      CODEC(DoubleDelta, ZSTD(1)),
    cluster               LowCardinality(String),
    node                  LowCardinality(String),
    device_id             LowCardinality(String),
    model                 LowCardinality(String),
    pool                  LowCardinality(String),
    device_units          UInt32 COMMENT 'a GPU-hour is device_units x 3,600,000 unit-milliseconds',
    tenant                LowCardinality(String),
    project               LowCardinality(String),
    queue                 LowCardinality(String),
    workload_id           String CODEC(ZSTD(1)),
    allocation_id         String CODEC(ZSTD(1)),
    partition_id          LowCardinality(String),
    partition_profile     LowCardinality(String),
    units                 UInt32 COMMENT 'held',
    preemptible           Bool,
    estimated             LowCardinality(String),
    charge_period_start   DateTime64(3, 'UTC') CODEC(ZSTD(1)),
    charge_period_end     DateTime64(3, 'UTC') CODEC(ZSTD(1)),
    sku                   LowCardinality(String) COMMENT 'empty: no rate matched, the price is unknown, not zero',
    list_unit_price       Nullable(Decimal(18, 9)) COMMENT 'per GPU-hour',
    contracted_unit_price Nullable(Decimal(18, 9)) COMMENT 'per GPU-hour',
    billing_currency      LowCardinality(String),
    used_unit_ms          Decimal(18, 6) CODEC(ZSTD(1)),
    idle_unit_ms          Decimal(18, 6) CODEC(ZSTD(1)),
    unmetered_unit_ms     Int64 CODEC(ZSTD(1)),
    unallocated_unit_ms   Int64 CODEC(ZSTD(1)),
    unavailable_unit_ms   Int64 CODEC(ZSTD(1))
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(hour)
ORDER BY (hour, run, cluster, device_id, tenant, allocation_id, charge_period_start);

-- One row: from this run on, the hour's entries are those of `run`. The newest row of an hour wins.
CREATE TABLE IF NOT EXISTS closed_hours
(
    hour        DateTime('UTC'),
    run         UInt64 COMMENT 'whose entries are in force',
    checked_by  UInt64 COMMENT 'the run that said so, later than or equal to run',
    inputs      UInt64 COMMENT 'fingerprint of the facts and prices that the hour was computed from',
    content     UInt64 COMMENT 'fingerprint of the entries'
)
ENGINE = ReplacingMergeTree(checked_by)
ORDER BY hour;

-- One row: a close that finished. Its period, rate card and ingest cut-off reproduce it.
CREATE TABLE IF NOT EXISTS close_runs
(
    run             UInt64,
    started_at      DateTime64(3, 'UTC'),
    finished_at     DateTime64(3, 'UTC'),
    closed_until    DateTime('UTC'),
    ingest_cutoff   DateTime64(3, 'UTC'),
    rate_card       String COMMENT 'version; empty: none was applied',
    hours_checked   UInt64,
    hours_changed   UInt64,
    software        LowCardinality(String)
)
ENGINE = ReplacingMergeTree
ORDER BY run;

CREATE VIEW IF NOT EXISTS ledger AS
SELECT * FROM ledger_entries
WHERE (hour, run) IN (SELECT hour, argMax(run, checked_by) FROM closed_hours GROUP BY hour);

-- One row: a rate card as applied. The newest version is in force.
CREATE TABLE IF NOT EXISTS rate_cards
(
    version    String COMMENT 'hash of the card',
    sequence   UInt64,
    applied_at DateTime64(3, 'UTC'),
    author     String,
    reason     String,
    card       String COMMENT 'the card, canonical JSON'
)
ENGINE = ReplacingMergeTree
ORDER BY sequence;

-- One row: an issued invoice or credit note. Never changed.
CREATE TABLE IF NOT EXISTS invoices
(
    number         String COMMENT 'gap-free per issuer and year',
    issuer         LowCardinality(String),
    year           UInt16,
    sequence       UInt32,
    tenant         LowCardinality(String),
    period_start   DateTime64(3, 'UTC'),
    period_end     DateTime64(3, 'UTC'),
    currency       LowCardinality(String),
    total          Decimal(38, 9),
    issued_at      DateTime64(3, 'UTC'),
    document       String COMMENT 'the whole statement, canonical JSON, with its run, rate card and lines'
)
ENGINE = ReplacingMergeTree
ORDER BY (issuer, year, sequence);
