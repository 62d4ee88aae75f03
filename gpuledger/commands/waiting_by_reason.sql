-- One row: rows of a sender that wait for a person, for one reason.
SELECT sender, record_type, reason, count() AS rows, min(held_at) AS since
FROM held_rows FINAL
WHERE state = 'held'
GROUP BY sender, record_type, reason
ORDER BY since, sender, record_type, reason
