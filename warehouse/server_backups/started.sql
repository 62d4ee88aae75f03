-- One row: a copy that this server was told to make or restore; none: it was started anew since.   Bytes are as stored.
-- Params:  id: its name.
SELECT status, error, compressed_size AS bytes, dateDiff('second', start_time, now64()) AS seconds
FROM system.backups
WHERE id = {id:String}
