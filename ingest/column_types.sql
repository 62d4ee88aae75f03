-- One row: a column of a table and its type.   Parameter: table String.
SELECT name, type FROM system.columns WHERE database = currentDatabase() AND table = {table:String}
