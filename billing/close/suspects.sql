-- One row: a device whose claims cannot simply be believed: more claimed than it has, one partition twice.
-- Units:   the comparison is with the fewest units that the device ever had, so it errs on the side of looking.
WITH
    claimed AS
    (
        SELECT cluster, device_id, partition_id, start_ms, end_ms, least(units, 1000000) AS wanted,
            if(wanted = 0, 1000000, wanted) AS k
        FROM {claims:Identifier}
        WHERE device_id != ''
    ),
    fewest AS
    (
        SELECT cluster, device_id, min(units) AS units FROM {states:Identifier} GROUP BY cluster, device_id
    ),
    steps AS
    (
        SELECT cluster, device_id, '' AS partition_id, step.1 AS at, step.2 AS delta
        FROM
        (
            SELECT claimed.cluster AS cluster, claimed.device_id AS device_id,
                if(k = 1000000, fewest.units, k) AS taken, [(start_ms, toInt64(taken)), (end_ms, -toInt64(taken))] AS both
            FROM claimed INNER JOIN fewest ON claimed.cluster = fewest.cluster AND claimed.device_id = fewest.device_id
        )
        ARRAY JOIN both AS step
        UNION ALL
        SELECT cluster, device_id, partition_id, step.1 AS at, step.2 AS delta
        FROM claimed
        ARRAY JOIN [(start_ms, toInt64(1)), (end_ms, -1)] AS step
        WHERE partition_id != ''
    ),
    peaks AS
    (
        SELECT cluster, device_id, partition_id, max(level) AS peak
        FROM
        (
            SELECT cluster, device_id, partition_id,
                sum(delta) OVER (PARTITION BY cluster, device_id, partition_id ORDER BY at, delta ROWS UNBOUNDED PRECEDING) AS level
            FROM steps
        )
        GROUP BY cluster, device_id, partition_id
    )
SELECT DISTINCT peaks.cluster AS cluster, peaks.device_id AS device_id
FROM peaks
LEFT JOIN fewest ON peaks.cluster = fewest.cluster AND peaks.device_id = fewest.device_id
WHERE peak > if(partition_id = '', fewest.units, 1)
ORDER BY cluster, device_id
