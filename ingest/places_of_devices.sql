-- One row: a device was said to stand on a node, with so many units. Where it was only said to be removed it never stood.
-- Parameters: devices Array(String).
SELECT DISTINCT cluster, node, device_id, units FROM devices WHERE device_id IN {devices:Array(String)} AND state != 'removed'
