-- One row: losses of a reason and record type that no finding has reported yet (SQLite).
SELECT reason, record, batches - said_batches, rows - said_rows, first_ms, last_ms
FROM losses
WHERE batches > said_batches
ORDER BY reason, record
