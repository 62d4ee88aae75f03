-- One row: a device was said to stand on a node.   Parameters: devices Array(String).
SELECT DISTINCT cluster, node, device_id FROM devices WHERE device_id IN {devices:Array(String)}
