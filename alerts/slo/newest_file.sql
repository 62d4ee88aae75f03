-- One row: the file of objectives in force; none before the first was applied.
SELECT version, sequence, applied_at, author, reason, objectives
FROM slo_files
ORDER BY sequence DESC, applied_at DESC
LIMIT 1
