-- One row: a device on which something was decided of an allocation that the close before did not carry over, and this one looks
-- at: it was refused, its end was lost when the next holder came, or it may have ended a second later than that. Its claims
-- there are made again, so that what decided about them must be, too.
-- Params:  last: the close before.   lost: what the books say of such an end (billing.close.resolve).
WITH carried_before AS (SELECT arrayJoin(carried) FROM close_carried WHERE run = {last:UInt64})
SELECT DISTINCT toString(cluster) AS cluster, toString(device_id) AS device_id
FROM
(
    SELECT cluster, device_id
    FROM refused_claims
    WHERE device_id != ''
        AND cityHash64(toString(cluster), allocation_id) IN {alive:Identifier}
        AND cityHash64(toString(cluster), allocation_id) NOT IN carried_before
    UNION ALL
    SELECT cluster, device_id
    FROM allocations
    WHERE (cluster, device_id, start_at) IN
    (
        SELECT cluster, device_id, arrayJoin(if(estimated = {lost:String}, [start_at, end_at], [end_at])) AS at
        FROM allocations
        WHERE allocation_hash IN {alive:Identifier} AND allocation_hash NOT IN carried_before AND at IS NOT NULL
    )
)
WHERE (cluster, device_id) NOT IN (SELECT cluster, device_id FROM {reached:Identifier})
