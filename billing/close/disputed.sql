-- One row: a device with contradictory claims: more units claimed than it has, one partition claimed twice, or on a node
-- where an allocation holds GPUs without naming the device.
-- Units:   compares with the fewest units that the device ever had, and counts a claim to all of it as the most it ever
--          had, so it errs on the side of examining.
CREATE TABLE {disputed:Identifier} ENGINE = Memory AS
WITH
    ever AS
    (
        SELECT cluster, device_id, min(units) AS least, max(units) AS most
        FROM {states:Identifier}
        GROUP BY cluster, device_id
    ),
    claimed AS
    (
        SELECT claims.cluster AS cluster, claims.device_id AS device_id, partition_id, start_ms, end_ms,
            toInt64(if(claims.units = 0, ever.most, claims.units)) AS taken, toInt64(ever.least) AS fewest_units
        FROM {claims:Identifier} AS claims
        INNER JOIN ever ON claims.cluster = ever.cluster AND claims.device_id = ever.device_id
        WHERE NOT ends_before_it_starts
    ),
    steps AS
    (
        SELECT cluster, device_id, '' AS part, fewest_units AS most, step.1 AS at, step.2 AS delta
        FROM claimed
        ARRAY JOIN [(start_ms, taken), (end_ms, -taken)] AS step
        UNION ALL
        SELECT cluster, device_id, partition_id AS part, toInt64(1) AS most, step.1 AS at, step.2 AS delta
        FROM claimed
        ARRAY JOIN [(start_ms, toInt64(1)), (end_ms, toInt64(-1))] AS step
        WHERE partition_id != ''
    )
SELECT DISTINCT cluster, device_id
FROM
(
    SELECT cluster, device_id, most,
        sum(delta) OVER (PARTITION BY cluster, device_id, part ORDER BY at, delta ROWS UNBOUNDED PRECEDING) AS held
    FROM steps
)
WHERE held > most
UNION DISTINCT
SELECT cluster, device_id
FROM {states:Identifier}
WHERE (cluster, node) IN (SELECT cluster, node FROM {claims:Identifier} WHERE device_id = '' AND NOT ends_before_it_starts)
