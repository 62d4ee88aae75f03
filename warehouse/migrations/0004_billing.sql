-- What people do to invoices besides issuing them. Append-only.

-- One row: an amount in a tenant's favour (negative: against it) on the draft of a month: by hand, or for a broken
-- promise. One that was wrong is reversed by another row.
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
    evidence  String COMMENT 'JSON: what the amount was computed from'
)
ENGINE = ReplacingMergeTree
ORDER BY (month, tenant, id);

-- One row: an issued invoice that is void. Its number stays taken.
CREATE TABLE IF NOT EXISTS voided_invoices
(
    number String,
    at     DateTime64(3, 'UTC'),
    author String,
    reason String
)
ENGINE = ReplacingMergeTree
ORDER BY number;

-- One row: somebody did something to prices, tenants, credits or invoices.
CREATE TABLE IF NOT EXISTS audit
(
    at      DateTime64(3, 'UTC'),
    actor   String,
    action  LowCardinality(String) COMMENT 'such as rates.apply, invoice.issue, invoice.void, credits.add',
    object  String COMMENT 'what it was done to: a version, a number, an id',
    reason  String,
    inputs  String COMMENT 'JSON: what it was done from (run, rate card, file hash, ...)'
)
ENGINE = ReplacingMergeTree
ORDER BY (at, action, object);
