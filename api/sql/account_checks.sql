-- One row: whether an account is read-only, the closed tables that it sees, and the upper bounds that its profile sets.
-- Params:  database; closed: tables that it may not see; limits: names of settings.
SELECT
    toUInt64(getSetting('readonly')),
    (SELECT groupArray(name) FROM system.tables WHERE database = {database:String} AND has({closed:Array(String)}, name)),
    (SELECT groupArray((name, max)) FROM system.settings WHERE max IS NOT NULL AND has({limits:Array(String)}, name))
