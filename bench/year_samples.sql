-- One row: a minute of one device, told of the job that holds it, as in fleet_samples.sql; a batch is 16 devices' minute.
-- Params:  from_minute, minutes: since the fleet's start.
INSERT INTO samples (ts, interval_seconds, cluster, node, device_id, partition_id, workload_id, state, utilization, utilization_source, memory_used_bytes, power_watts, batch)
SELECT
    {start:DateTime64(3, 'UTC')} + toIntervalMillisecond(offset_ms), 60, 'bench', concat('node-', toString(intDiv(device, 8))),
    concat('GPU-', leftPad(toString(device), 8, '0'), '-0000-4000-8000-000000000000'), '',
    if(within < 25980000, concat('uid-', toString(device), '-', toString(job)), ''),
    if(dice % 20 = 0, 'blank', 'ok'), if(dice % 20 = 0, NULL, round((dice % 10007) / 10007, 4)), 'bench',
    if(dice % 20 = 0, NULL, 1000000 * (dice % 80000)), if(dice % 20 = 0, NULL, 100 + dice % 600),
    cityHash64(intDiv(device, 16), minute)
FROM
(
    SELECT
        intDiv(number, {minutes:UInt64}) AS device,
        {from_minute:UInt64} + number % {minutes:UInt64} + 1 AS minute,
        toInt64(minute) * 60000 AS offset_ms,
        cityHash64(number, {from_minute:UInt64}) AS dice,
        toInt64(offset_ms) - device * 7919 % 600000 - 1 AS since,
        intDiv(greatest(since, 0), 26580000) AS job,
        greatest(since, 0) % 26580000 AS within
    FROM numbers({devices:UInt64} * {minutes:UInt64})
)
