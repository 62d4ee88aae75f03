-- Prepaid balances and budgets. What was drawn down is not here: it is read from the issued invoices that are not void.

-- One row: an amount that a tenant has paid, or been given, in advance: it pays for what accrues during
-- [starts_at, expires_at). A revoked one is the same row, of the next revision, that expires earlier.
CREATE TABLE IF NOT EXISTS grants
(
    id         String COMMENT 'given by who grants it, or a hash of the content: granting it again changes nothing',
    revision   UInt32,
    at         DateTime64(3, 'UTC'),
    tenant     LowCardinality(String),
    amount     Decimal(18, 9) COMMENT 'whole minor units',
    currency   LowCardinality(String),
    starts_at  DateTime64(3, 'UTC'),
    expires_at DateTime64(3, 'UTC'),
    author     String,
    reason     String
)
ENGINE = ReplacingMergeTree(revision)
ORDER BY (tenant, id);

-- One row: a budgets file as applied. The newest version is in force.
CREATE TABLE IF NOT EXISTS budgets
(
    version    String COMMENT 'hash of the file',
    sequence   UInt64,
    applied_at DateTime64(3, 'UTC'),
    author     String,
    reason     String,
    budgets    String COMMENT 'the file, canonical JSON'
)
ENGINE = ReplacingMergeTree
ORDER BY sequence;
