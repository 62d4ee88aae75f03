-- Who pushed what, and what waits for a person.

-- One row: a pushed row that waits for a person's yes, or waited for it. The newest revision counts.
CREATE TABLE IF NOT EXISTS held_rows
(
    sender      LowCardinality(String) COMMENT 'who pushed it',
    record_type LowCardinality(String),
    hash        FixedString(32) COMMENT 'of the row: sent again, it is not held twice',
    revision    UInt64 COMMENT 'microseconds since 1970 at which this was written',
    source      String COMMENT 'as of its batch',
    reason      LowCardinality(String) COMMENT 'why it is held',
    subject     String COMMENT 'the device, allocation or service that it is about, with its cluster',
    detail      String COMMENT 'the reason in words',
    ts          DateTime64(3, 'UTC') COMMENT 'the row''s',
    raw         String COMMENT 'the row, JSON',
    held_at     DateTime64(3, 'UTC'),
    state       LowCardinality(String) COMMENT 'held, accepted or refused',
    push        String COMMENT 'the held push that it was decided with',
    decided_at  DateTime64(3, 'UTC') COMMENT '1970: not yet',
    decided_by  String,
    why         String
)
ENGINE = ReplacingMergeTree(revision)
ORDER BY (sender, record_type, hash)
COMMENT 'Pushed rows that a person decides on.';

-- One row: what a sender pushed on a day (UTC) of one record type, and what became of it. Rows of a key are summed.
CREATE TABLE IF NOT EXISTS sender_days
(
    day         Date,
    sender      LowCardinality(String) COMMENT 'empty: nobody that we know',
    record_type LowCardinality(String),
    outcome     LowCardinality(String) COMMENT 'stored, held, quarantined, out_of_place, refused (by a person) or denied (401, 403)',
    reason      LowCardinality(String) COMMENT 'why it was not stored',
    pushes      SimpleAggregateFunction(sum, UInt64),
    rows        SimpleAggregateFunction(sum, UInt64),
    last_at     SimpleAggregateFunction(max, DateTime64(3, 'UTC'))
)
ENGINE = AggregatingMergeTree
ORDER BY (day, sender, record_type, outcome, reason)
COMMENT 'Pushes by sender and day.';

ALTER TABLE ingest_batches ADD COLUMN IF NOT EXISTS sender String COMMENT 'who pushed it, or who read the file';
