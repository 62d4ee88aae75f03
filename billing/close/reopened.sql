-- One row: a device on which an allocation was refused that the close before did not carry over, and this one looks at:
-- its claims there are made again, so that what refused them must be, too.
-- Params:  last: the close before.
SELECT DISTINCT toString(cluster) AS cluster, toString(device_id) AS device_id
FROM refused_claims
WHERE device_id != ''
    AND cityHash64(toString(cluster), allocation_id) IN {alive:Identifier}
    AND cityHash64(toString(cluster), allocation_id) NOT IN (SELECT arrayJoin(carried) FROM close_carried WHERE run = {last:UInt64})
    AND (cluster, device_id) NOT IN (SELECT cluster, device_id FROM {reached:Identifier})
