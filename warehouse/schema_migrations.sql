-- One row: a migration that was applied to the store.
CREATE TABLE IF NOT EXISTS schema_migrations
(
    number     UInt32,
    name       String,
    applied_at DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC')
)
ENGINE = ReplacingMergeTree
ORDER BY number
