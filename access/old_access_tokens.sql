-- One row: a token as versions before kept it in the warehouse.
SELECT
    id, toString(digest) AS digest, name, owner, roles, tenants, scopes, expires_at, revoked, created_at, created_by
FROM access_tokens FINAL
ORDER BY id
