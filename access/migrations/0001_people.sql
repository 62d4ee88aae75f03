-- People, their tokens and sessions, saved queries, keys. Runs on SQLite and on PostgreSQL.
-- Instants are microseconds since 1970, sets are JSON arrays of text, sorted.

-- One row: somebody who may ask: a local user, a person of single sign-on, or a service account. Nobody is deleted.
CREATE TABLE people
(
    issuer     TEXT NOT NULL, -- 'local', 'service', or the provider's address
    subject    TEXT NOT NULL, -- local users and service accounts: their name; single sign-on: the provider's sub
    name       TEXT NOT NULL, -- a label: two people may have the same
    kind       TEXT NOT NULL CHECK (kind IN ('local', 'sso', 'service')),
    roles      TEXT NOT NULL,
    tenants    TEXT NOT NULL, -- what the role tenant sees
    disabled   BOOLEAN NOT NULL,
    password   TEXT NOT NULL, -- scrypt hash with its parameters and salt; empty: none
    created_at BIGINT NOT NULL,
    changed_at BIGINT NOT NULL,
    changed_by TEXT NOT NULL,
    seen_at    BIGINT, -- last sign-in; NULL: never
    PRIMARY KEY (issuer, subject)
);

-- One row: an API token. Its text is nowhere: only its SHA-256.
CREATE TABLE tokens
(
    id         TEXT NOT NULL PRIMARY KEY, -- public: the beginning of the token
    digest     TEXT NOT NULL,
    name       TEXT NOT NULL, -- what it is for
    issuer     TEXT NOT NULL,
    subject    TEXT NOT NULL,
    roles      TEXT NOT NULL,
    tenants    TEXT NOT NULL,
    scopes     TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    created_by TEXT NOT NULL,
    expires_at BIGINT NOT NULL,
    revoked    BOOLEAN NOT NULL,
    FOREIGN KEY (issuer, subject) REFERENCES people (issuer, subject)
);

-- One row: a session that is not over. Its cookie is nowhere: only its SHA-256.
CREATE TABLE sessions
(
    digest     TEXT NOT NULL PRIMARY KEY,
    issuer     TEXT NOT NULL,
    subject    TEXT NOT NULL,
    began_at   BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    FOREIGN KEY (issuer, subject) REFERENCES people (issuer, subject)
);

-- One row: a statement that somebody keeps. Whoever opens the store may keep some without being a row of people.
CREATE TABLE saved_queries
(
    issuer      TEXT NOT NULL,
    subject     TEXT NOT NULL,
    name        TEXT NOT NULL,
    owner       TEXT NOT NULL, -- the owner's label when it was saved
    text        TEXT NOT NULL,
    description TEXT NOT NULL,
    shared      BOOLEAN NOT NULL,
    created_at  BIGINT NOT NULL,
    changed_at  BIGINT NOT NULL,
    changed_by  TEXT NOT NULL,
    PRIMARY KEY (issuer, subject, name)
);

-- One row: a key that was generated here, hexadecimal.
CREATE TABLE keys
(
    name       TEXT NOT NULL PRIMARY KEY,
    value      TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

-- One row: a table of the warehouse that was copied from, so that none is copied twice.
CREATE TABLE copied
(
    source    TEXT NOT NULL PRIMARY KEY, -- the table's UUID
    name      TEXT NOT NULL,
    copied_at BIGINT NOT NULL
);
