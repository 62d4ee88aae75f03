-- What was learned of pushed metrics and must outlive their log, which has six hours: a busy GPU shows a number that
-- several units fit for longer than that.

-- One row: what is known of a target's units, or which devices a sender's exporters told of; the newest row counts.
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
COMMENT 'What was learned of pushed metrics.';
