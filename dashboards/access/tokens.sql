-- One row: a token as it stands, the newest first.
SELECT
    id, toString(digest) AS digest, name, owner, roles, tenants, scopes, expires_at, revoked, created_at, created_by
FROM access_tokens FINAL
ORDER BY created_at DESC, id
