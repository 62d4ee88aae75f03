-- What collectors measure beside the samples that are billed, and what they find wrong.

-- One row: one metric of a device, a partition or a workload on it over (ts - interval_seconds, ts], or why it has no
-- value. Names and units of metrics: docs/telemetry.md.
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
SETTINGS allow_nullable_key = 1, non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1;

-- One row: something that a collector found: an XID, a lost GPU, a process without an allocation, a metric that this
-- architecture should have and does not say.
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
SETTINGS non_replicated_deduplication_window = 10000, ttl_only_drop_parts = 1;
