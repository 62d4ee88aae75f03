-- One row: a device with contradictory claims: more units claimed than it has, one partition claimed twice, or on a node
-- where an allocation holds GPUs without naming the device.
-- Units:   compares with the fewest units that the device ever had, and counts a claim to all of it as the most it ever
--          had, so it errs on the side of examining.
CREATE TABLE {disputed:Identifier} ENGINE = Memory AS
WITH
    ever AS
    (
        SELECT cluster, device_id, toInt64(min(units)) AS least, toInt64(max(units)) AS most
        FROM {states:Identifier}
        GROUP BY cluster, device_id
    )
SELECT DISTINCT cluster, device_id
FROM
(
    SELECT claims.cluster AS cluster, claims.device_id AS device_id
    FROM {claims:Identifier} AS claims
    INNER JOIN ever ON claims.cluster = ever.cluster AND claims.device_id = ever.device_id
    -- The device as a whole, then the partition. Of one instant, ends come before starts.
    ARRAY JOIN arrayResize([('', if(units = 0, most, toInt64(units)), least), (toString(partition_id), toInt64(1), toInt64(1))], 1 + (partition_id != '')) AS taken
    WHERE NOT ends_before_it_starts
    GROUP BY cluster, device_id, taken.1
    HAVING arrayMax(arrayCumSum(
        step -> step.2,
        arraySort(arrayFlatten(groupArray([(start_ms, taken.2), (end_ms, -taken.2)]))))) > any(taken.3)
    UNION ALL
    SELECT cluster, device_id
    FROM {states:Identifier}
    WHERE (cluster, node) IN (SELECT cluster, node FROM {claims:Identifier} WHERE device_id = '' AND NOT ends_before_it_starts)
)
