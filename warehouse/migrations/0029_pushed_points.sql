-- What was pushed as metrics (remote write, OTLP), until rows are made of it: the series of one device at one instant
-- come in several pushes. A push is acknowledged once its instants are here.
--
-- Chosen for: few targets a push, read by target and time a minute later, thrown away by the hour.

-- One row: one value of one series at one instant. The same one may come again, with another push.
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
COMMENT 'Pushed metrics that rows are made of.';

-- One row: a push has points of a target at an instant. Written after the points: without it they are not acknowledged.
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
COMMENT 'Which pushed metrics rows were made of.';
