-- One row: what was reported of a device. state: the last before the end, empty: none; errors: findings of at least a warning
-- in the period.
-- Parameters: start, end DateTime64(3) (UTC); device String, empty: all
SELECT cluster, device_id, max(reported) AS state, sum(found) AS errors
FROM
(
    SELECT cluster, device_id, toString(argMax(v.state, (v.ts, v.state))) AS reported, 0 AS found
    FROM devices AS v
    WHERE v.ts < {end:DateTime64(3,'UTC')} AND ({device:String} = '' OR device_id = {device:String})
    GROUP BY cluster, device_id
    UNION ALL
    SELECT cluster, device_id, '' AS reported, count() AS found
    FROM findings FINAL
    WHERE severity >= 'warning' AND ts >= {start:DateTime64(3,'UTC')} AND ts < {end:DateTime64(3,'UTC')}
        AND ({device:String} = '' OR device_id = {device:String})
    GROUP BY cluster, device_id
)
GROUP BY cluster, device_id
