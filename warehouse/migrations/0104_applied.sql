-- Applied configuration: files that people apply, each version with its author and reason.

CREATE TABLE IF NOT EXISTS rate_cards
(
    version    String COMMENT 'hash of the card',
    sequence   UInt64,
    applied_at DateTime64(3, 'UTC'),
    author     String,
    reason     String,
    card       String COMMENT 'the card, canonical JSON',
    position UInt64 COMMENT 'in the chain, from 1; 0: of before it',
    previous String COMMENT 'digest of the row before',
    digest   String COMMENT 'sha256 of previous and the content (docs/billing.md)'
)
ENGINE = ReplacingMergeTree
PRIMARY KEY sequence
ORDER BY (sequence, position)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'One row: a rate card as applied; the newest is in force. Chained. Source: rates apply.';

CREATE TABLE IF NOT EXISTS tenant_mappings
(
    version    String COMMENT 'hash of the mapping',
    sequence   UInt64,
    applied_at DateTime64(3, 'UTC'),
    author     String,
    reason     String,
    mapping    String COMMENT 'the mapping, canonical JSON',
    position UInt64 COMMENT 'in the chain, from 1; 0: of before it',
    previous String COMMENT 'digest of the row before',
    digest   String COMMENT 'sha256 of previous and the content (docs/billing.md)'
)
ENGINE = ReplacingMergeTree
PRIMARY KEY sequence
ORDER BY (sequence, position)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'One row: a tenant mapping as applied; the newest is in force. Chained. Source: tenants apply.';

CREATE TABLE IF NOT EXISTS energy_settings
(
    version    String COMMENT 'hash of the settings',
    sequence   UInt64,
    applied_at DateTime64(3, 'UTC'),
    author     String,
    reason     String,
    settings   String COMMENT 'canonical JSON',
    position UInt64 COMMENT 'in the chain, from 1; 0: of before it',
    previous String COMMENT 'digest of the row before',
    digest   String COMMENT 'sha256 of previous and the content (docs/billing.md)'
)
ENGINE = ReplacingMergeTree
PRIMARY KEY sequence
ORDER BY (sequence, position)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'One row: grid intensities, PUE and idle power as applied; the newest is in force. Chained. Source: energy intensity apply.';

CREATE TABLE IF NOT EXISTS budgets
(
    version    String COMMENT 'hash of the file',
    sequence   UInt64,
    applied_at DateTime64(3, 'UTC'),
    author     String,
    reason     String,
    budgets    String COMMENT 'the file, canonical JSON',
    position UInt64 COMMENT 'in the chain, from 1; 0: of before it',
    previous String COMMENT 'digest of the row before',
    digest   String COMMENT 'sha256 of previous and the content (docs/billing.md)'
)
ENGINE = ReplacingMergeTree
PRIMARY KEY sequence
ORDER BY (sequence, position)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'One row: a budgets file as applied; the newest is in force. Chained. Source: budget apply.';

CREATE TABLE IF NOT EXISTS parties
(
    version    String COMMENT 'hash of the details',
    sequence   UInt64,
    applied_at DateTime64(3, 'UTC'),
    author     String,
    reason     String,
    parties    String COMMENT 'canonical JSON: addresses, tax ids, bank',
    position UInt64 COMMENT 'in the chain, from 1; 0: of before it',
    previous String COMMENT 'digest of the row before',
    digest   String COMMENT 'sha256 of previous and the content (docs/billing.md)'
)
ENGINE = ReplacingMergeTree
PRIMARY KEY sequence
ORDER BY (sequence, position)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'One row: the seller''s and the buyers'' details as applied; the newest is in force. Chained. Source: invoice parties apply.';
