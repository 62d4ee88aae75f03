-- One row: an application of a tenant mapping, the oldest first.   rules: how many it has.
SELECT version, applied_at, author, reason, toUInt32(JSONLength(mapping, 'rules')) AS rules
FROM tenant_mappings FINAL
ORDER BY sequence
