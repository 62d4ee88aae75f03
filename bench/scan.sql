-- The yardstick of the close: one plain GROUP BY of all samples by device and hour. Answers how many groups.
SELECT count() AS groups
FROM
(
    SELECT device_id, toStartOfHour(ts) AS hour, sum(utilization) AS utilization, count() AS samples
    FROM samples
    GROUP BY device_id, hour
)
