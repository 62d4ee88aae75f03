-- One row: something that was reported of the device itself, the newest first: a change, or something found on it.
-- Parameters: device String; start, end DateTime64(3) (UTC)
SELECT ts, what, severity, message
FROM
(
    SELECT ts, toString(state) AS what, if(state = 'available', 'info', 'warning') AS severity,
        concat(node, if(units > 1, concat(' · ', toString(units)), '')) AS message
    FROM devices FINAL
    WHERE device_id = {device:String} AND ts < {end:DateTime64(3,'UTC')}
    UNION ALL
    SELECT ts, finding, toString(severity), message
    FROM findings FINAL
    WHERE device_id = {device:String} AND ts >= {start:DateTime64(3,'UTC')} AND ts < {end:DateTime64(3,'UTC')}
)
ORDER BY ts DESC
LIMIT 50
