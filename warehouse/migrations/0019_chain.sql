-- Books that show tampering: chained tables (warehouse/chain.py), and fingerprints of what a close publishes.

-- One row: how a chain begins (is_beginning), or the last row that was added to it.
CREATE TABLE IF NOT EXISTS chain_heads
(
    chain        LowCardinality(String) COMMENT 'the table',
    is_beginning Bool,
    position     UInt64 COMMENT 'of the last row; 0: none yet',
    digest       String COMMENT 'sha256: of that row; of a beginning, of the rows of before the chain'
)
ENGINE = ReplacingMergeTree(position)
ORDER BY (chain, is_beginning)
COMMENT 'Beginning and last row of each chain.';

-- The position is part of the order, so that no row ever replaces another: a grant's revisions all stay.
ALTER TABLE invoices
    ADD COLUMN IF NOT EXISTS position UInt64 COMMENT 'in the chain, from 1; 0: of before it',
    ADD COLUMN IF NOT EXISTS previous String COMMENT 'digest of the row before',
    ADD COLUMN IF NOT EXISTS digest   String COMMENT 'sha256 of previous and the content (docs/billing.md)',
    MODIFY ORDER BY (issuer, year, sequence, position);
ALTER TABLE invoices MODIFY SETTING non_replicated_deduplication_window = 1000;

ALTER TABLE voided_invoices
    ADD COLUMN IF NOT EXISTS position UInt64,
    ADD COLUMN IF NOT EXISTS previous String,
    ADD COLUMN IF NOT EXISTS digest   String,
    MODIFY ORDER BY (number, position);
ALTER TABLE voided_invoices MODIFY SETTING non_replicated_deduplication_window = 1000;

ALTER TABLE credits
    ADD COLUMN IF NOT EXISTS position UInt64,
    ADD COLUMN IF NOT EXISTS previous String,
    ADD COLUMN IF NOT EXISTS digest   String,
    MODIFY ORDER BY (month, tenant, id, position);
ALTER TABLE credits MODIFY SETTING non_replicated_deduplication_window = 1000;

ALTER TABLE grants
    ADD COLUMN IF NOT EXISTS position UInt64,
    ADD COLUMN IF NOT EXISTS previous String,
    ADD COLUMN IF NOT EXISTS digest   String,
    MODIFY ORDER BY (tenant, id, position);
ALTER TABLE grants MODIFY SETTING non_replicated_deduplication_window = 1000;

ALTER TABLE rate_cards
    ADD COLUMN IF NOT EXISTS position UInt64,
    ADD COLUMN IF NOT EXISTS previous String,
    ADD COLUMN IF NOT EXISTS digest   String,
    MODIFY ORDER BY (sequence, position);
ALTER TABLE rate_cards MODIFY SETTING non_replicated_deduplication_window = 1000;

ALTER TABLE tenant_mappings
    ADD COLUMN IF NOT EXISTS position UInt64,
    ADD COLUMN IF NOT EXISTS previous String,
    ADD COLUMN IF NOT EXISTS digest   String,
    MODIFY ORDER BY (sequence, position);
ALTER TABLE tenant_mappings MODIFY SETTING non_replicated_deduplication_window = 1000;

ALTER TABLE energy_settings
    ADD COLUMN IF NOT EXISTS position UInt64,
    ADD COLUMN IF NOT EXISTS previous String,
    ADD COLUMN IF NOT EXISTS digest   String,
    MODIFY ORDER BY (sequence, position);
ALTER TABLE energy_settings MODIFY SETTING non_replicated_deduplication_window = 1000;

ALTER TABLE budgets
    ADD COLUMN IF NOT EXISTS position UInt64,
    ADD COLUMN IF NOT EXISTS previous String,
    ADD COLUMN IF NOT EXISTS digest   String,
    MODIFY ORDER BY (sequence, position);
ALTER TABLE budgets MODIFY SETTING non_replicated_deduplication_window = 1000;

ALTER TABLE close_runs
    ADD COLUMN IF NOT EXISTS position UInt64,
    ADD COLUMN IF NOT EXISTS previous String,
    ADD COLUMN IF NOT EXISTS digest   String,
    MODIFY ORDER BY (run, position);
ALTER TABLE close_runs MODIFY SETTING non_replicated_deduplication_window = 1000;

ALTER TABLE audit
    ADD COLUMN IF NOT EXISTS position UInt64,
    ADD COLUMN IF NOT EXISTS previous String,
    ADD COLUMN IF NOT EXISTS digest   String,
    MODIFY ORDER BY (at, action, object, position);
ALTER TABLE audit MODIFY SETTING non_replicated_deduplication_window = 1000;

-- What a close leaves: how many hours are closed, and fingerprints of the tables that it rewrites. NULL: of before this.
ALTER TABLE close_runs
    ADD COLUMN IF NOT EXISTS hours_closed   Nullable(UInt64) COMMENT 'hours that are closed after it',
    ADD COLUMN IF NOT EXISTS allocations    Nullable(UInt64) COMMENT 'fingerprint of allocations as it published them',
    ADD COLUMN IF NOT EXISTS refused_claims Nullable(UInt64) COMMENT 'fingerprint of refused_claims as it published them';

ALTER TABLE closed_hours
    ADD COLUMN IF NOT EXISTS seal UInt64 DEFAULT cityHash64(hour, run, checked_by, inputs, content) COMMENT 'fingerprint of the row';
ALTER TABLE closed_hours MATERIALIZE COLUMN seal SETTINGS mutations_sync = 2;
