-- One row: what was measured of a device in the last hour before an instant; NULL: not reported.
-- memory: used part (0-1), the greatest; of a device under MIG that of the whole. Other columns: means, temperature the highest.
-- Parameters: until DateTime64(3) (UTC); device String, empty: all
SELECT
    cluster, device_id,
    maxOrNull(memory_used_bytes / nullIf(memory_total_bytes, 0)) AS memory,
    maxOrNull(temperature_celsius) AS temperature,
    avgOrNull(power_watts) AS power
FROM samples
WHERE ts > {until:DateTime64(3,'UTC')} - INTERVAL 1 HOUR AND ts <= {until:DateTime64(3,'UTC')} AND partition_id = ''
    AND ({device:String} = '' OR device_id = {device:String})
GROUP BY cluster, device_id
