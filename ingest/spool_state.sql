-- One row: how much waits, since when (ms, null if nothing does), and how many bodies are set aside (SQLite).
SELECT
    batches,
    rows,
    bytes,
    (SELECT at_ms FROM batches ORDER BY seq LIMIT 1),
    (SELECT count(*) FROM set_aside)
FROM totals
