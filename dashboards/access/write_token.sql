-- Writes a revision of a token; the newest counts. digest: SHA-256, hexadecimal.
INSERT INTO access_tokens
    (id, revision, digest, name, owner, roles, tenants, scopes, expires_at, revoked, created_at, created_by)
SELECT
    {id:String}, {revision:UInt64}, {digest:String}, {name:String}, {owner:String}, {roles:Array(String)},
    {tenants:Array(String)}, {scopes:Array(String)}, {expires_at:DateTime64(3, 'UTC')}, {revoked:Bool},
    {created_at:DateTime64(3, 'UTC')}, {created_by:String}
