-- One row: the budgets file in force; none before the first was applied.
SELECT version, sequence, applied_at, author, reason, budgets
FROM budgets
ORDER BY sequence DESC, applied_at DESC
LIMIT 1
