-- The ledger: computed from facts and prices by close; it can be dropped and computed again.

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
    software        LowCardinality(String),
    tenant_mapping  String COMMENT 'version; empty: none was applied',
    position UInt64 COMMENT 'in the chain, from 1; 0: of before it',
    previous String COMMENT 'digest of the row before',
    digest   String COMMENT 'sha256 of previous and the content (docs/billing.md)',
    hours_closed    Nullable(UInt64) COMMENT 'hours that are closed after it',
    allocations     Nullable(UInt64) COMMENT 'fingerprint of allocations as it published them',
    refused_claims  Nullable(UInt64) COMMENT 'fingerprint of refused_claims as it published them'
)
ENGINE = ReplacingMergeTree
PRIMARY KEY run
ORDER BY (run, position)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'One row: a close that finished; its period, rate card, mapping and cut-off reproduce it. Chained. Source: close.';

CREATE TABLE IF NOT EXISTS close_batches
(
    run     UInt64,
    follows UInt64 COMMENT 'the run whose batches it read too; 0: none',
    batches Array(UInt64) CODEC(ZSTD(1))
)
ENGINE = MergeTree
ORDER BY run
COMMENT 'One row: a close, and the batches that it was the first to read, beside those of the close that it follows. Source: close.';

CREATE TABLE IF NOT EXISTS closed_hours
(
    hour        DateTime('UTC'),
    run         UInt64 COMMENT 'whose entries are in force',
    checked_by  UInt64 COMMENT 'the run that checked it, later than or equal to run',
    inputs      UInt64 COMMENT 'fingerprint of the facts and prices that the hour was computed from',
    content     UInt64 COMMENT 'fingerprint of the entries',
    seal        UInt64 DEFAULT cityHash64(hour, run, checked_by, inputs, content) COMMENT 'fingerprint of the row'
)
ENGINE = ReplacingMergeTree(checked_by)
ORDER BY hour
COMMENT 'One row: from the run checked_by on, an hour''s entries are those of run; the newest counts. Source: close.';

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
    unavailable_unit_ms   Int64 CODEC(ZSTD(1)),
    cost_center           LowCardinality(String),
    reported_tenant           LowCardinality(String) DEFAULT tenant COMMENT 'as the source reported it',
    reported_project          LowCardinality(String) DEFAULT project COMMENT 'as the source reported it',
    priority              Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'as the source reported it; null: not reported',
    unmapped              Bool COMMENT 'no rule of the mapping in force fits',
    INDEX charge_periods charge_period_start TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(hour)
ORDER BY (hour, run, cluster, device_id, tenant, allocation_id, charge_period_start)
COMMENT 'One row: what an allocation held of a device in one hour at one share, price and tenant, or the platform''s own time on it (an empty allocation_id). Units: unit-milliseconds; prices per GPU-hour. Source: close. Read the view ledger.';

CREATE OR REPLACE VIEW ledger AS
SELECT * FROM ledger_entries
WHERE (hour, run) IN (SELECT hour, argMax(run, checked_by) FROM closed_hours GROUP BY hour);

CREATE TABLE IF NOT EXISTS energy_entries
(
    run                     UInt64,
    hour                    DateTime('UTC')      CODEC(DoubleDelta, ZSTD(1)),
    cluster                 LowCardinality(String),
    node                    LowCardinality(String),
    device_id               LowCardinality(String),
    model                   LowCardinality(String),
    pool                    LowCardinality(String),
    device_units            UInt32 COMMENT 'a GPU-hour is device_units x 3,600,000 unit-milliseconds',
    tenant                  LowCardinality(String),
    project                 LowCardinality(String),
    queue                   LowCardinality(String),
    workload_id             String CODEC(ZSTD(1)),
    allocation_id           String CODEC(ZSTD(1)),
    preemptible             Bool,
    sku                     LowCardinality(String) COMMENT 'empty: no rate matched',
    charge_period_start     DateTime64(3, 'UTC') CODEC(ZSTD(1)),
    energy_millijoules      Nullable(Int64)      CODEC(ZSTD(1)) COMMENT 'null: nothing was measured, which is not zero',
    measured_unit_ms        Int64                CODEC(ZSTD(1)) COMMENT 'held while the device''s power was measured',
    memory_byte_ms          Nullable(Int64)      CODEC(ZSTD(1)) COMMENT 'null: nothing was measured; a GiB-hour is 2^30 x 3,600,000',
    memory_measured_unit_ms Int64                CODEC(ZSTD(1)) COMMENT 'held while the holder''s memory was measured',
    INDEX charge_periods charge_period_start TYPE minmax GRANULARITY 1
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(hour)
ORDER BY (hour, run, cluster, device_id, tenant, allocation_id, charge_period_start)
COMMENT 'One row: the energy and memory of an allocation on a device in one hour at one SKU, or the platform''s part (an empty allocation_id), where something was measured. Units: in the names. Source: close. Read the view energy.';

CREATE OR REPLACE VIEW energy AS
SELECT * FROM energy_entries
WHERE (hour, run) IN (SELECT hour, argMax(run, checked_by) FROM closed_hours GROUP BY hour);

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
    estimated         LowCardinality(String) COMMENT 'empty, or what was estimated and how',
    cost_center       LowCardinality(String),
    reported_tenant       LowCardinality(String) DEFAULT tenant,
    reported_project      LowCardinality(String) DEFAULT project,
    priority          Nullable(Int64),
    unmapped          Bool
)
ENGINE = MergeTree
ORDER BY (cluster, device_id, start_at, claim)
COMMENT 'One row: an allocation held units of a device during [start_at, end_at). Source: close, which rewrites the table.';

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
ORDER BY (reason, cluster, allocation_id, start_at)
COMMENT 'One row: a claim or inventory row that the books refuse, and why. Source: close, which rewrites the table.';

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
ORDER BY (zone, day, version, tenant, cluster, device_id, workload_id)
COMMENT 'One row: the sum of the ledger''s entries of an allocation on a device, at one share and price, that begin in a day of a zone, or of the platform''s own time. Units: as in ledger_entries. Source: the ledger. In force are those of summed_days.';

CREATE TABLE IF NOT EXISTS summed_days
(
    zone       LowCardinality(String),
    day        DateTime('UTC'),
    version    UInt64,
    content    UInt64 COMMENT 'fingerprint of the hours and runs that were summed',
    written_at DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC')
)
ENGINE = ReplacingMergeTree(written_at)
ORDER BY (zone, day)
COMMENT 'One row: a day whose sums are complete; they hold while content is that of the hours in force. Source: the ledger.';
