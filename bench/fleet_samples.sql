-- One row: a minute of one device, told of the job that holds it (of everybody between two jobs); one in twenty unusable.
-- Params:  jitter_ms: how far a sample may be from its minute; it measures since the one before, or, if it says_minute, for a
--          minute.
INSERT INTO samples (ts, interval_seconds, cluster, node, device_id, partition_id, workload_id, state, utilization, utilization_source, memory_used_bytes, power_watts, batch)
SELECT
    {start:DateTime64(3, 'UTC')} + toIntervalMillisecond(offset_ms + late_ms), 60 + if({says_minute:Bool}, 0, (late_ms - late_before_ms) / 1000), 'bench', concat('node-', toString(intDiv(device, 8))),
    concat('GPU-', leftPad(toString(device), 8, '0'), '-0000-4000-8000-000000000000'), '',
    if(within < 25980000, concat('uid-', toString(device), '-', toString(job)), ''),
    if(dice % 20 = 0, 'blank', 'ok'), if(dice % 20 = 0, NULL, round((dice % 10007) / 10007, 4)), 'bench',
    if(dice % 20 = 0, NULL, 1000000 * (dice % 80000)), if(dice % 20 = 0, NULL, 100 + dice % 600), 1000 + {day:UInt32}
FROM
(
    SELECT
        intDiv(number, 1440) AS device,
        ({day:UInt32} * 1440 + number % 1440 + 1) * 60000 AS offset_ms,
        cityHash64(number, {day:UInt32}) AS dice,
        toInt64(cityHash64(device, offset_ms) % (2 * {jitter_ms:UInt32} + 1)) - {jitter_ms:UInt32} AS late_ms,
        toInt64(cityHash64(device, offset_ms - 60000) % (2 * {jitter_ms:UInt32} + 1)) - {jitter_ms:UInt32} AS late_before_ms,
        toInt64(offset_ms) - device * 7919 % 600000 - 1 AS since,
        intDiv(greatest(since, 0), 26580000) AS job,
        greatest(since, 0) % 26580000 AS within
    FROM numbers({devices:UInt64} * 1440)
)
