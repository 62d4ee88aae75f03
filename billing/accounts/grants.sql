-- One row: a grant as it stands now.
-- Params:  all_tenants = 1, or tenant = the only one.
SELECT id, revision, at, tenant, amount, currency, starts_at, expires_at, author, reason
FROM grants FINAL
WHERE {all_tenants:UInt8} = 1 OR tenant = {tenant:String}
ORDER BY tenant, expires_at, starts_at, id
