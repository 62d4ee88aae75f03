-- One row: a device on which an allocation was refused, or lost its end when the next holder came, that the close before did
-- not carry over, and this one looks at: its claims there are made again, so that what decided about them must be, too.
-- Params:  last: the close before.   lost: what the books say of such an end (billing.close.resolve).
SELECT DISTINCT toString(cluster) AS cluster, toString(device_id) AS device_id
FROM
(
    SELECT cluster, device_id, cityHash64(toString(cluster), allocation_id) AS allocation FROM refused_claims
    UNION ALL
    SELECT cluster, device_id, allocation_hash AS allocation FROM allocations WHERE estimated = {lost:String}
)
WHERE device_id != ''
    AND allocation IN {alive:Identifier}
    AND allocation NOT IN (SELECT arrayJoin(carried) FROM close_carried WHERE run = {last:UInt64})
    AND (cluster, device_id) NOT IN (SELECT cluster, device_id FROM {reached:Identifier})
