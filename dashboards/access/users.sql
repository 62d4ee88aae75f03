-- One row: a local user as it stands.
-- Params:  name String = this one alone, or '' = all.
SELECT name, password, roles, tenants, disabled, created_at, changed_at, changed_by
FROM access_users FINAL
WHERE {name:String} = '' OR name = {name:String}
ORDER BY name
