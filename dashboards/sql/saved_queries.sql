-- One row: a saved query as it stands, by name and owner.
-- Params:  owner String, name String = this one alone; all Bool = everybody's, else those of `owner` and shared ones.
--          For all, or those of an owner, name is ''.
SELECT owner, name, text, description, shared, created_at, changed_at, changed_by
FROM saved_queries FINAL
WHERE deleted_at IS NULL
    AND ({all:Bool} OR shared OR owner = {owner:String})
    AND ({name:String} = '' OR name = {name:String})
ORDER BY name, owner
