-- Energy and memory, attributed by the close like the ledger, and what people say about power and the grid.

-- One row: for one hour, device and holder at one sku: the energy that is the holder's and the memory it held. The
-- platform's part (unallocated and unavailable time) has an empty allocation_id. There are rows only where something
-- was measured. They become visible with the hour's ledger entries; read the view `energy`.
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
    memory_measured_unit_ms Int64                CODEC(ZSTD(1)) COMMENT 'held while the holder''s memory was measured'
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(hour)
ORDER BY (hour, run, cluster, device_id, tenant, allocation_id, charge_period_start);

CREATE VIEW IF NOT EXISTS energy AS
SELECT * FROM energy_entries
WHERE (hour, run) IN (SELECT hour, argMax(run, checked_by) FROM closed_hours GROUP BY hour);

-- One row: what was said of grids, PUE and idle power, as applied. The newest is in force.
CREATE TABLE IF NOT EXISTS energy_settings
(
    version    String COMMENT 'hash of the settings',
    sequence   UInt64,
    applied_at DateTime64(3, 'UTC'),
    author     String,
    reason     String,
    settings   String COMMENT 'canonical JSON'
)
ENGINE = ReplacingMergeTree
ORDER BY sequence;
