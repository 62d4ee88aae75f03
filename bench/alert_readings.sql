-- Ten minutes of a reading a minute, of {instances:UInt32} devices and {metrics:UInt32} metrics; no reading is like the one
-- before.
INSERT INTO metrics (ts, interval_seconds, cluster, node, device_id, metric, state, value)
SELECT
    {now:DateTime64(3, 'UTC')} - toIntervalMinute(minute), 60, 'c', 'n', concat('GPU-', toString(device)),
    concat('m', toString(metric)), 'ok', device + minute / 100
FROM
(
    SELECT
        number % 10 AS minute,
        intDiv(number, 10) % {instances:UInt32} AS device,
        intDiv(number, 10 * {instances:UInt32}) AS metric
    FROM numbers(10 * {instances:UInt32} * {metrics:UInt32})
)
