-- What versions of before the first release made in the warehouse.

-- One row: a local user. The newest revision counts; one that is disabled stays, for the audit.
CREATE TABLE IF NOT EXISTS access_users
(
    name       String,
    revision   UInt64 COMMENT 'microseconds since 1970 at which it was written',
    password   String COMMENT 'scrypt hash with its parameters and salt; empty: cannot sign in with a password',
    roles      Array(LowCardinality(String)),
    tenants    Array(String) COMMENT 'what the role tenant sees',
    disabled   Bool,
    created_at DateTime64(3, 'UTC'),
    changed_at DateTime64(3, 'UTC'),
    changed_by String
)
ENGINE = ReplacingMergeTree(revision)
ORDER BY name
COMMENT 'Local users. Not readable by SQL.';

-- One row: an API token. Its text is nowhere: only its SHA-256. The newest revision counts.
CREATE TABLE IF NOT EXISTS access_tokens
(
    id         String COMMENT 'public: the beginning of the token',
    revision   UInt64 COMMENT 'microseconds since 1970 at which it was written',
    digest     FixedString(64) COMMENT 'SHA-256 of the whole token, hexadecimal',
    name       String COMMENT 'what it is for',
    owner      String COMMENT 'whose it is',
    roles      Array(LowCardinality(String)),
    tenants    Array(String) COMMENT 'what the role tenant sees',
    scopes     Array(LowCardinality(String)) COMMENT 'read, write, sql',
    expires_at DateTime64(3, 'UTC'),
    revoked    Bool,
    created_at DateTime64(3, 'UTC'),
    created_by String
)
ENGINE = ReplacingMergeTree(revision)
ORDER BY id
COMMENT 'API tokens. Not readable by SQL.';

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
