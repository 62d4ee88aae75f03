-- The tables of an agent's spool (SQLite). Times are ms since the epoch.

-- One row: a batch that waits for the store. body: gzip of JSON lines. id: hash of record and body.
-- suspect: none of its rows fits the contract.   bytes: about what it takes on disk.
CREATE TABLE IF NOT EXISTS batches
(
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,
    record  TEXT NOT NULL,
    suspect INTEGER NOT NULL,
    rows    INTEGER NOT NULL,
    bytes   INTEGER NOT NULL,
    at_ms   INTEGER NOT NULL,
    id      TEXT NOT NULL,
    body    BLOB NOT NULL
);
CREATE INDEX IF NOT EXISTS batches_by_record ON batches (record, suspect, seq);

-- One row, always: the sums of batches.
CREATE TABLE IF NOT EXISTS totals (one INTEGER PRIMARY KEY CHECK (one = 1), batches INTEGER, rows INTEGER, bytes INTEGER);
INSERT OR IGNORE INTO totals VALUES (1, 0, 0, 0);
CREATE TRIGGER IF NOT EXISTS batch_added AFTER INSERT ON batches BEGIN
    UPDATE totals SET batches = batches + 1, rows = rows + NEW.rows, bytes = bytes + NEW.bytes;
END;
CREATE TRIGGER IF NOT EXISTS batch_gone AFTER DELETE ON batches BEGIN
    UPDATE totals SET batches = batches - 1, rows = rows - OLD.rows, bytes = bytes - OLD.bytes;
END;

-- One row: a body that the store will never take, with the reason that it gave.
CREATE TABLE IF NOT EXISTS set_aside
(
    seq    INTEGER PRIMARY KEY AUTOINCREMENT,
    record TEXT NOT NULL,
    rows   INTEGER NOT NULL,
    at_ms  INTEGER NOT NULL,
    reason TEXT NOT NULL,
    body   BLOB NOT NULL
);

-- One row: what did not reach the store, by reason and record type; said_*: how much of it a finding told.
-- first_ms, last_ms: of what was not reported.
CREATE TABLE IF NOT EXISTS losses
(
    reason       TEXT NOT NULL,
    record       TEXT NOT NULL,
    batches      INTEGER NOT NULL,
    rows         INTEGER NOT NULL,
    said_batches INTEGER NOT NULL DEFAULT 0,
    said_rows    INTEGER NOT NULL DEFAULT 0,
    first_ms     INTEGER NOT NULL,
    last_ms      INTEGER NOT NULL,
    PRIMARY KEY (reason, record)
);
