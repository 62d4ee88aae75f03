-- One row: the folder of an active part of a table of this database. (One thread: two cost more than they save.)
SELECT table, path
FROM system.parts
WHERE database = currentDatabase() AND active
SETTINGS max_threads = 1
