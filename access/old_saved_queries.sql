-- One row: a saved query as versions before kept it in the warehouse.
SELECT owner, name, text, description, shared, created_at, changed_at, changed_by
FROM saved_queries FINAL
WHERE deleted_at IS NULL
ORDER BY name, owner
