-- Documents of the books: written once, each row chained to the one before by its digest (warehouse/chain.py). The position is
-- part of the sorting key, so that no row ever replaces another.

CREATE TABLE IF NOT EXISTS invoices
(
    number         String COMMENT 'gap-free per issuer and year',
    issuer         LowCardinality(String),
    year           UInt16,
    sequence       UInt32,
    tenant         LowCardinality(String),
    period_start   DateTime64(3, 'UTC'),
    period_end     DateTime64(3, 'UTC'),
    currency       LowCardinality(String),
    total          Decimal(38, 9),
    issued_at      DateTime64(3, 'UTC'),
    document       String COMMENT 'the whole statement, canonical JSON, with its run, rate card and lines',
    position UInt64 COMMENT 'in the chain, from 1; 0: of before it',
    previous String COMMENT 'digest of the row before',
    digest   String COMMENT 'sha256 of previous and the content (docs/billing.md)'
)
ENGINE = ReplacingMergeTree
PRIMARY KEY (issuer, year, sequence)
ORDER BY (issuer, year, sequence, position)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'One row: an issued invoice or credit note, never changed. Units: total in the currency. Chained. Source: invoice issue and credit.';

CREATE TABLE IF NOT EXISTS voided_invoices
(
    number String,
    at     DateTime64(3, 'UTC'),
    author String,
    reason String,
    position UInt64 COMMENT 'in the chain, from 1; 0: of before it',
    previous String COMMENT 'digest of the row before',
    digest   String COMMENT 'sha256 of previous and the content (docs/billing.md)'
)
ENGINE = ReplacingMergeTree
PRIMARY KEY number
ORDER BY (number, position)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'One row: an issued invoice that is void; its number stays assigned. Chained. Source: invoice void.';

CREATE TABLE IF NOT EXISTS credits
(
    id        String COMMENT 'given by who adds it, or a hash of the content: adding it again changes nothing',
    at        DateTime64(3, 'UTC'),
    month     String COMMENT 'whose draft shows it, like 2026-10',
    tenant    LowCardinality(String),
    project   LowCardinality(String),
    kind      LowCardinality(String) COMMENT 'manual, slo or interference',
    amount    Decimal(18, 9),
    currency  LowCardinality(String),
    author    String,
    reason    String,
    evidence  String COMMENT 'JSON: what the amount was computed from',
    position UInt64 COMMENT 'in the chain, from 1; 0: of before it',
    previous String COMMENT 'digest of the row before',
    digest   String COMMENT 'sha256 of previous and the content (docs/billing.md)'
)
ENGINE = ReplacingMergeTree
PRIMARY KEY (month, tenant, id)
ORDER BY (month, tenant, id, position)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'One row: an amount in a tenant''s favour (negative: against it) on the draft of a month; one that was wrong is reversed by another row. Units: the currency. Chained. Source: credits add, objectives.';

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
    reason     String,
    position UInt64 COMMENT 'in the chain, from 1; 0: of before it',
    previous String COMMENT 'digest of the row before',
    digest   String COMMENT 'sha256 of previous and the content (docs/billing.md)'
)
ENGINE = ReplacingMergeTree(revision)
PRIMARY KEY (tenant, id)
ORDER BY (tenant, id, position)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'One row: a revision of an amount paid or given in advance, for what accrues during [starts_at, expires_at). What was drawn is read from the issued invoices. Units: the currency. Chained. Source: credits grant and revoke.';

CREATE TABLE IF NOT EXISTS audit
(
    at      DateTime64(3, 'UTC'),
    actor   String,
    action  LowCardinality(String) COMMENT 'such as rates.apply, invoice.issue, invoice.void, credits.add',
    object  String COMMENT 'what it was done to: a version, a number, an id',
    reason  String,
    inputs  String COMMENT 'JSON: what it was done from (run, rate card, file hash, ...)',
    position UInt64 COMMENT 'in the chain, from 1; 0: of before it',
    previous String COMMENT 'digest of the row before',
    digest   String COMMENT 'sha256 of previous and the content (docs/billing.md)'
)
ENGINE = ReplacingMergeTree
PRIMARY KEY (at, action, object)
ORDER BY (at, action, object, position)
SETTINGS non_replicated_deduplication_window = 1000
COMMENT 'One row: somebody did something to prices, tenants, credits, invoices, access or held pushes. Chained. Source: whatever does it.';

CREATE TABLE IF NOT EXISTS chain_heads
(
    chain        LowCardinality(String) COMMENT 'the table',
    is_beginning Bool,
    position     UInt64 COMMENT 'of the last row; 0: none yet',
    digest       String COMMENT 'sha256: of that row; of a beginning, of the rows of before the chain'
)
ENGINE = ReplacingMergeTree(position)
ORDER BY (chain, is_beginning)
COMMENT 'One row: how a chain begins (is_beginning), or its last row. Source: every append to a chained table.';
