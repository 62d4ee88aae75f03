-- Statements that people keep by a name.

-- One row: a version of a saved query. The newest revision of (owner, name) counts; a deleted one stays, for the audit.
CREATE TABLE IF NOT EXISTS saved_queries
(
    owner       String COMMENT 'whose it is: a name as it stands in the audit',
    name        String COMMENT 'one of its owner''s',
    revision    UInt64 COMMENT 'microseconds since 1970 at which it was written',
    text        String COMMENT 'the statement',
    description String,
    shared      Bool COMMENT 'whether others who may ask SQL see it',
    created_at  DateTime64(3, 'UTC'),
    changed_at  DateTime64(3, 'UTC'),
    changed_by  String,
    deleted_at  Nullable(DateTime64(3, 'UTC'))
)
ENGINE = ReplacingMergeTree(revision)
ORDER BY (owner, name)
COMMENT 'Saved queries. Not readable by SQL.';
