-- One row: what a sender pushed on a day (UTC) of one record type, and what became of it.
-- Parameters: since Date.
SELECT
    day, sender, record_type, outcome, reason,
    sum(pushes) AS pushes,
    sum(rows) AS rows,
    max(last_at) AS last_at
FROM sender_days
WHERE day >= {since:Date}
GROUP BY day, sender, record_type, outcome, reason
ORDER BY day DESC, sender, record_type, outcome, reason
