-- Facts: what collectors and schedulers record. Append-only, delivered at least once, identified by natural keys.
--
-- Chosen for the workload (many devices, one sample a minute, read by stream and hour):
--   order      stream first, time last: an hour of one stream is one granule, text columns shrink to runs
--   partitions a day each: late data, TTL and REPLACE touch a day, a backfill month is 30 parts
--   codecs     DoubleDelta for the clock, ZSTD(1) for values, T64 for byte counts; measured in docs/storage.md
--   dedup      a re-sent batch carries the same token and is dropped, in the view target too; the window is a
--              count of blocks and must exceed what can be re-sent after a kill
--   stream     64-bit hash of who is measured, so that grouping compares one integer, not four strings
--   batch      which ingest batch wrote the row (see ingest_batches)
-- Sorting keys go on after the natural key: two different records of the same thing are both stored, identical ones
-- collapse, and the ledger picks one by content, never by arrival. Where two records differ in columns that are not in the
-- key (an event's priority, a sample's power), told_otherwise tells them apart, so that no merge drops one of them.

CREATE TABLE IF NOT EXISTS samples
(
    ts                  DateTime64(3, 'UTC')    CODEC(DoubleDelta, ZSTD(1)) COMMENT 'end of the interval measured',
    interval_seconds    Float64                 CODEC(ZSTD(1)) COMMENT 'length of the interval measured',
    cluster             LowCardinality(String),
    node                LowCardinality(String),
    device_id           LowCardinality(String)  COMMENT 'vendor UUID',
    partition_id        LowCardinality(String)  COMMENT 'empty: the whole device',
    workload_id         LowCardinality(String)  COMMENT 'empty: everybody on it',
    state               Enum8('ok' = 1, 'idle' = 2, 'unsupported' = 3, 'no_permission' = 4, 'blank' = 5, 'stale' = 6),
    utilization         Nullable(Float64)       CODEC(ZSTD(1)) COMMENT '0-1, of the device or partition named',
    utilization_source  LowCardinality(String),
    sm_active           Nullable(Float32)       CODEC(ZSTD(1)) COMMENT '0-1',
    tensor_active       Nullable(Float32)       CODEC(ZSTD(1)) COMMENT '0-1',
    dram_active         Nullable(Float32)       CODEC(ZSTD(1)) COMMENT '0-1',
    memory_used_bytes   Nullable(UInt64)        CODEC(T64, ZSTD(1)),
    memory_total_bytes  Nullable(UInt64)        CODEC(ZSTD(1)),
    power_watts         Nullable(Float32)       CODEC(ZSTD(1)),
    energy_joules       Nullable(Float64)       CODEC(ZSTD(1)) COMMENT 'within the interval',
    temperature_celsius Nullable(Float32)       CODEC(ZSTD(1)),
    batch               UInt64                  CODEC(ZSTD(1)),
    ingested_on         Date DEFAULT today()    CODEC(ZSTD(1)) COMMENT 'retention counts from arrival, so old traces stay',
    stream              UInt64 MATERIALIZED cityHash64(cluster, device_id, partition_id, workload_id) CODEC(ZSTD(1)),
    told_otherwise      UInt64 CODEC(ZSTD(1)) COMMENT 'the batch, where its rows may have keys of rows reported before; else 0'
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMMDD(ts)
PRIMARY KEY (cluster, device_id, partition_id, workload_id, ts)
ORDER BY (cluster, device_id, partition_id, workload_id, ts, state, utilization, interval_seconds, told_otherwise)
TTL ingested_on + INTERVAL 400 DAY DELETE
SETTINGS allow_nullable_key = 1, non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1
COMMENT 'One row: what a device, a partition or a workload on it did over (ts - interval_seconds, ts]. Units: in the names; ratios 0-1. Source: agents and exporters.';

CREATE TABLE IF NOT EXISTS events
(
    ts                DateTime64(3, 'UTC') CODEC(DoubleDelta, ZSTD(1)),
    cluster           LowCardinality(String),
    source            LowCardinality(String),
    allocation_id     String CODEC(ZSTD(1)),
    workload_id       String CODEC(ZSTD(1)),
    event             LowCardinality(String),
    tenant            LowCardinality(String),
    project           LowCardinality(String),
    queue             LowCardinality(String),
    priority          Nullable(Int64),
    gpus              Nullable(Float64) COMMENT 'requested',
    node              LowCardinality(String),
    device_id         LowCardinality(String) COMMENT 'empty: only the node is known, gpus counts',
    partition_id      LowCardinality(String),
    partition_profile LowCardinality(String) COMMENT 'e.g. 1g.10gb',
    units             Nullable(UInt32) COMMENT 'of the device held; null: all',
    preemptible       Nullable(Bool),
    reason            LowCardinality(String),
    message           String CODEC(ZSTD(1)),
    actor             LowCardinality(String),
    batch             UInt64 CODEC(ZSTD(1)),
    told_otherwise    UInt64 CODEC(ZSTD(1)) COMMENT 'as of samples'
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(ts)
PRIMARY KEY (cluster, allocation_id, event, ts, device_id, partition_id)
ORDER BY (cluster, allocation_id, event, ts, device_id, partition_id, tenant, project, queue, workload_id, node, units, gpus, told_otherwise)
SETTINGS allow_nullable_key = 1, non_replicated_deduplication_window = 10000
COMMENT 'One row: a change in the lifecycle of an allocation, of one device where it names one. Source: schedulers and watchers.';

CREATE TABLE IF NOT EXISTS devices
(
    ts           DateTime64(3, 'UTC') CODEC(DoubleDelta, ZSTD(1)),
    cluster      LowCardinality(String),
    node         LowCardinality(String),
    device_id    LowCardinality(String),
    vendor       LowCardinality(String),
    model        LowCardinality(String),
    memory_bytes Nullable(UInt64),
    units        UInt32 COMMENT 'a device has a whole number of units, so that shares are exact',
    pool         LowCardinality(String),
    state        Enum8('available' = 1, 'unavailable' = 2, 'removed' = 3),
    batch        UInt64 CODEC(ZSTD(1)),
    told_otherwise UInt64 CODEC(ZSTD(1)) COMMENT 'as of samples'
)
ENGINE = ReplacingMergeTree
PRIMARY KEY (cluster, device_id, ts)
ORDER BY (cluster, device_id, ts, state, units, model, pool, node, told_otherwise)
SETTINGS non_replicated_deduplication_window = 10000
COMMENT 'One row: a device as it is from ts on, until its next row. Source: agents, watchers and inventory files.';

CREATE TABLE IF NOT EXISTS service_levels
(
    ts               DateTime64(3, 'UTC') CODEC(DoubleDelta, ZSTD(1)),
    interval_seconds Float64 CODEC(ZSTD(1)),
    cluster          LowCardinality(String),
    service          LowCardinality(String),
    workload_id      LowCardinality(String),
    tenant           LowCardinality(String),
    metric           LowCardinality(String) COMMENT 'e.g. time_to_first_token_seconds',
    quantile         Nullable(Float64) COMMENT 'null: not a quantile',
    value            Nullable(Float64) CODEC(ZSTD(1)),
    value_low        Nullable(Float64) CODEC(ZSTD(1)) COMMENT 'lower edge of the histogram bucket',
    value_high       Nullable(Float64) CODEC(ZSTD(1)) COMMENT 'upper edge of the histogram bucket',
    observations     Nullable(UInt64),
    batch            UInt64 CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(ts)
PRIMARY KEY (cluster, service, workload_id, metric)
ORDER BY (cluster, service, workload_id, metric, quantile, ts)
SETTINGS allow_nullable_key = 1, non_replicated_deduplication_window = 10000
COMMENT 'One row: a metric of a service over (ts - interval_seconds, ts]. Units: in the metric''s name. Source: the exporters of inference servers.';

CREATE TABLE IF NOT EXISTS metrics
(
    ts               DateTime64(3, 'UTC')   CODEC(DoubleDelta, ZSTD(1)),
    interval_seconds Float64                CODEC(ZSTD(1)),
    cluster          LowCardinality(String),
    node             LowCardinality(String),
    device_id        LowCardinality(String) COMMENT 'vendor UUID',
    partition_id     LowCardinality(String) COMMENT 'empty: the whole device',
    workload_id      LowCardinality(String) COMMENT 'empty: everybody on it',
    metric           LowCardinality(String) COMMENT 'e.g. throttle_thermal_seconds',
    state            Enum8('ok' = 1, 'idle' = 2, 'unsupported' = 3, 'no_permission' = 4, 'blank' = 5, 'stale' = 6),
    value            Nullable(Float64)      CODEC(ZSTD(1)) COMMENT 'null unless the state is ok or idle',
    source           LowCardinality(String) COMMENT 'where the source says it: an NVML call, an exporter''s series',
    batch            UInt64                 CODEC(ZSTD(1)),
    ingested_on      Date DEFAULT today()   CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMMDD(ts)
PRIMARY KEY (cluster, device_id, partition_id, workload_id, metric, ts)
ORDER BY (cluster, device_id, partition_id, workload_id, metric, ts, state, value)
TTL ingested_on + INTERVAL 90 DAY DELETE
SETTINGS allow_nullable_key = 1, non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1
COMMENT 'One row: one further metric of a device, a partition or a workload on it over (ts - interval_seconds, ts], or why it has no value. Units: docs/telemetry.md. Source: agents and exporters.';

CREATE TABLE IF NOT EXISTS findings
(
    ts           DateTime64(3, 'UTC') CODEC(DoubleDelta, ZSTD(1)),
    cluster      LowCardinality(String),
    node         LowCardinality(String),
    device_id    LowCardinality(String),
    partition_id LowCardinality(String),
    workload_id  String CODEC(ZSTD(1)),
    finding      LowCardinality(String) COMMENT 'e.g. xid, gpu_lost, process_without_allocation, metric_missing',
    severity     Enum8('info' = 1, 'warning' = 2, 'critical' = 3),
    message      String CODEC(ZSTD(1)),
    source       LowCardinality(String),
    batch        UInt64 CODEC(ZSTD(1)),
    ingested_on  Date DEFAULT today() CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toYYYYMM(ts)
ORDER BY (cluster, node, device_id, partition_id, workload_id, finding, message, ts)
TTL ingested_on + INTERVAL 400 DAY DELETE
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1
COMMENT 'One row: what a collector found wrong: an XID, a lost GPU, a process without an allocation, a missing metric. Source: agents and exporters.';
