-- Adds to the losses (SQLite). ?1 reason, ?2 record, ?3 batches, ?4 rows, ?5 and ?6 first and last, ms.
INSERT INTO losses (reason, record, batches, rows, first_ms, last_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (reason, record) DO UPDATE SET
    first_ms = iif(batches = said_batches, excluded.first_ms, min(first_ms, excluded.first_ms)),
    last_ms = iif(batches = said_batches, excluded.last_ms, max(last_ms, excluded.last_ms)),
    batches = batches + excluded.batches,
    rows = rows + excluded.rows
