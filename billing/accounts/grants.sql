-- One row: a grant as it stands now.
-- Params:  all_tenants = 1, or tenant = the only one.
SELECT id, revision, at, tenant, amount, currency, starts_at, expires_at, author, reason
FROM
(
    SELECT *
    FROM grants
    WHERE {all_tenants:UInt8} = 1 OR tenant = {tenant:String}
    ORDER BY revision DESC, position DESC
    LIMIT 1 BY tenant, id
)
ORDER BY tenant, expires_at, starts_at, id
