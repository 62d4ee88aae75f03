-- One row: an entry of the warehouse's audit that was committed here with what it tells of and is not there yet.
CREATE TABLE audit_outbox
(
    id     TEXT NOT NULL PRIMARY KEY,
    at     BIGINT NOT NULL,
    actor  TEXT NOT NULL,
    action TEXT NOT NULL,
    object TEXT NOT NULL,
    reason TEXT NOT NULL,
    inputs TEXT NOT NULL -- JSON
);
