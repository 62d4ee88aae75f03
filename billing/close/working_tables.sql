-- One row: a working table of one run (its names begin with {prefix:String}), or of a run that was killed long ago.
SELECT name
FROM system.tables
WHERE database = currentDatabase()
    AND (startsWith(name, {prefix:String})
        OR (match(name, '^close_[0-9]+_') AND metadata_modification_time < now() - INTERVAL 1 DAY))
