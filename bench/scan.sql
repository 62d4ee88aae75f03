-- One row: a digest of all samples grouped by device and hour: the yardstick of the close, one scan that reads use, power
-- and times. Of all groups, so that the engine cannot leave a sum out.
SELECT sum(cityHash64(device_id, hour, utilization, watts, seconds)) AS digest
FROM
(
    SELECT
        device_id, toStartOfHour(ts) AS hour,
        sum(utilization) AS utilization, sum(power_watts) AS watts, sum(interval_seconds) AS seconds
    FROM samples
    GROUP BY device_id, hour
)
