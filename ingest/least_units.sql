-- The fewest units that a device was said to have: what counts of it for an allocation may be those of its beginning.
-- Parameters: cluster, device String.
SELECT minOrNull(units) AS units FROM devices WHERE cluster = {cluster:String} AND device_id = {device:String}
