-- One row: a local user as versions before kept it in the warehouse.
SELECT name, password, roles, tenants, disabled, created_at, changed_at, changed_by
FROM access_users FINAL
ORDER BY name
