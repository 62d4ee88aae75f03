-- Whose what is held is: the tenants' mapping, and what the ledger keeps of it.

-- One row: a tenants' mapping as applied. The newest is in force.
CREATE TABLE IF NOT EXISTS tenant_mappings
(
    version    String COMMENT 'hash of the mapping',
    sequence   UInt64,
    applied_at DateTime64(3, 'UTC'),
    author     String,
    reason     String,
    mapping    String COMMENT 'the mapping, canonical JSON'
)
ENGINE = ReplacingMergeTree
ORDER BY sequence;

-- tenant and project are those that pay. Rows from before this are their own source's words: hence the defaults.
ALTER TABLE ledger_entries
    ADD COLUMN IF NOT EXISTS cost_center  LowCardinality(String),
    ADD COLUMN IF NOT EXISTS told_tenant  LowCardinality(String) DEFAULT tenant COMMENT 'as the source told it',
    ADD COLUMN IF NOT EXISTS told_project LowCardinality(String) DEFAULT project COMMENT 'as the source told it',
    ADD COLUMN IF NOT EXISTS priority     Nullable(Int64) CODEC(ZSTD(1)) COMMENT 'as the source told it; null: it did not',
    ADD COLUMN IF NOT EXISTS unmapped     Bool COMMENT 'no rule of the mapping in force fits';

ALTER TABLE allocations
    ADD COLUMN IF NOT EXISTS cost_center  LowCardinality(String),
    ADD COLUMN IF NOT EXISTS told_tenant  LowCardinality(String) DEFAULT tenant,
    ADD COLUMN IF NOT EXISTS told_project LowCardinality(String) DEFAULT project,
    ADD COLUMN IF NOT EXISTS priority     Nullable(Int64),
    ADD COLUMN IF NOT EXISTS unmapped     Bool;

ALTER TABLE close_runs
    ADD COLUMN IF NOT EXISTS tenant_mapping String COMMENT 'version; empty: none was applied';

CREATE OR REPLACE VIEW ledger AS
SELECT * FROM ledger_entries
WHERE (hour, run) IN (SELECT hour, argMax(run, checked_by) FROM closed_hours GROUP BY hour);
