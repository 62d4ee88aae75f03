-- What was measured of each device in each closed hour, which pages would have to find among all devices' samples and sums: those
-- are in the order of time.

CREATE TABLE IF NOT EXISTS device_hours
(
    hour            DateTime('UTC') COMMENT 'in which the samples end',
    inputs          UInt64 COMMENT 'fingerprint of the facts of the hour, as in closed_hours',
    cluster         LowCardinality(String),
    device_id       LowCardinality(String) COMMENT 'empty: the hour is complete',
    power_watts     Nullable(Float64) COMMENT 'of the whole device, on average' CODEC(ZSTD(1)),
    memory_bytes    Nullable(Float64) COMMENT 'of everybody on it, on average' CODEC(ZSTD(1)),
    highest_memory  Nullable(Float64) COMMENT '0-1, of the whole device: the greatest used part' CODEC(ZSTD(1)),
    highest_celsius Nullable(Float32) COMMENT 'of the whole device' CODEC(ZSTD(1)),
    mean_watts      Nullable(Float64) COMMENT 'of all samples of the whole device' CODEC(ZSTD(1))
)
ENGINE = ReplacingMergeTree
PARTITION BY toMonday(hour)
ORDER BY (cluster, device_id, hour, inputs)
COMMENT 'One row: what was measured of a device in an hour that a close read; null: not reported. It holds while inputs is that of the hour in closed_hours. Source: samples and stream_hours.';
