-- Writes a revision of a local user; the newest counts. password: a scrypt hash.
INSERT INTO access_users (name, revision, password, roles, tenants, disabled, created_at, changed_at, changed_by)
SELECT
    {name:String}, {revision:UInt64}, {password:String}, {roles:Array(String)}, {tenants:Array(String)}, {disabled:Bool},
    {created_at:DateTime64(3, 'UTC')}, {changed_at:DateTime64(3, 'UTC')}, {changed_by:String}
