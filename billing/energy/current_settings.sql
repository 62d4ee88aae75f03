-- One row: the energy settings in force; none before the first were applied.
SELECT version, sequence, applied_at, author, reason, settings
FROM energy_settings
ORDER BY sequence DESC, applied_at DESC
LIMIT 1
