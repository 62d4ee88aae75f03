-- One row: a column of a chained table that is content, by name.   Parameters: table String; link Array(String).
SELECT name, type
FROM system.columns
WHERE database = currentDatabase() AND table = {table:String} AND NOT has({link:Array(String)}, name)
ORDER BY name
