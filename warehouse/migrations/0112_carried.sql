-- What a close leaves to the next, so that it need not read again what has not changed (billing/close/carried.py).

CREATE TABLE IF NOT EXISTS close_carried
(
    run          UInt64 COMMENT 'the close; another one since then has left nothing, and all is read again',
    closed_until DateTime('UTC'),
    read_at      DateTime64(3, 'UTC') COMMENT 'when it began to read facts',
    horizon      DateTime64(3, 'UTC') COMMENT 'what no allocation of those carried held ended before it',
    rules        String COMMENT 'by which claims became allocations',
    prices       String COMMENT 'by which hours were computed from them',
    facts        UInt64 COMMENT 'fingerprint of what was done to the tables of facts besides writing to them',
    hours        UInt64 COMMENT 'fingerprint of the closed hours',
    allocations  UInt64 COMMENT 'fingerprint of allocations',
    carried      Array(UInt64) CODEC(ZSTD(1)) COMMENT 'hashes of the allocations to look at again'
)
ENGINE = ReplacingMergeTree(run)
ORDER BY tuple()
COMMENT 'One row: what a close leaves to the next one; the newest counts. It can be dropped: then the next close reads everything. Source: close.';

CREATE TABLE IF NOT EXISTS close_named
(
    run      UInt64,
    named_at DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC')
)
ENGINE = MergeTree
ORDER BY run
COMMENT 'One row: when a close named the batches that it reads (close_batches), or was about to. Source: close.';
