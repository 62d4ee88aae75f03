-- One row: as measured.sql, of the closed hours that were measured (dashboards/measured).
-- Parameters: device String; start, end DateTime64(3) (UTC)
SELECT hour, max(d.power_watts) AS power_watts, max(d.memory_bytes) AS memory_bytes
FROM device_hours AS d
WHERE device_id = {device:String} AND hour >= {start:DateTime64(3,'UTC')} AND hour < {end:DateTime64(3,'UTC')}
    AND (hour, inputs) IN
    (
        SELECT hour, argMax(c.inputs, c.checked_by)
        FROM closed_hours AS c
        WHERE hour >= {start:DateTime64(3,'UTC')} AND hour < {end:DateTime64(3,'UTC')}
        GROUP BY hour
    )
GROUP BY hour
ORDER BY hour
