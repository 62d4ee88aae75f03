-- One row: as latest.sql, of a closed hour that was measured (dashboards/measured).
-- Parameters: hour DateTime64(3) (UTC), inputs UInt64: of the hour; device String, empty: all
SELECT
    cluster, device_id, max(highest_memory) AS memory, max(highest_celsius) AS temperature, max(mean_watts) AS power
FROM device_hours
WHERE hour = {hour:DateTime64(3,'UTC')} AND inputs = {inputs:UInt64} AND device_id != ''
    AND ({device:String} = '' OR device_id = {device:String})
GROUP BY cluster, device_id
