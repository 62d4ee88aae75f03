-- One row: the parties' details in force; none before the first were applied.
SELECT version, sequence, applied_at, author, reason, parties
FROM parties
ORDER BY sequence DESC, applied_at DESC
LIMIT 1
