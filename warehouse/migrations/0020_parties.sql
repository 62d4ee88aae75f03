-- Who sends invoices and who pays them.

-- One row: the seller's and the buyers' details, as applied. The newest is in force.
CREATE TABLE IF NOT EXISTS parties
(
    version    String COMMENT 'hash of the details',
    sequence   UInt64,
    applied_at DateTime64(3, 'UTC'),
    author     String,
    reason     String,
    parties    String COMMENT 'canonical JSON: addresses, tax ids, bank'
)
ENGINE = ReplacingMergeTree
ORDER BY sequence;
