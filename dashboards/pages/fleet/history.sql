-- One row: something that was reported of the device itself, the newest first: a change, or something found on it.
-- Parameters: device String; start, end DateTime64(3) (UTC)
--   units: of a device that can be shared, else 0
SELECT ts, what, severity, message, units
FROM
(
    SELECT ts, toString(state) AS what, if(state = 'available', 'info', 'warning') AS severity,
        node AS message, if(units > 1, toUInt32(units), 0) AS units
    FROM devices FINAL
    WHERE device_id = {device:String} AND ts < {end:DateTime64(3,'UTC')}
    UNION ALL
    SELECT ts, finding, toString(severity), message, toUInt32(0)
    FROM findings FINAL
    WHERE device_id = {device:String} AND ts >= {start:DateTime64(3,'UTC')} AND ts < {end:DateTime64(3,'UTC')}
)
ORDER BY ts DESC
LIMIT 50
