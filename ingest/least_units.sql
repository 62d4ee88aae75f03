-- One row: the fewest units that a device was ever reported with: an allocation may count against those at its start.
-- Parameters: cluster, device String.
SELECT minOrNull(units) AS units FROM devices WHERE cluster = {cluster:String} AND device_id = {device:String}
