-- One row: the tenants' mapping in force; none before the first was applied.
SELECT version, sequence, applied_at, author, reason, mapping
FROM tenant_mappings
ORDER BY sequence DESC, applied_at DESC
LIMIT 1
