-- Writes a day of a fleet as Parquet, in order of time, as collectors send it; the same jobs as in fleet_samples.sql.
-- Params:  path of the file; devices; day since the fleet's start; start: DateTime64(3).
INSERT INTO FUNCTION file({path:String}, 'Parquet')
SELECT
    {start:DateTime64(3, 'UTC')} + toIntervalMillisecond(offset_ms) AS ts, toFloat64(60) AS interval_seconds, 'bench' AS cluster,
    concat('node-', toString(intDiv(device, 8))) AS node,
    concat('GPU-', leftPad(toString(device), 8, '0'), '-0000-4000-8000-000000000000') AS device_id, '' AS partition_id,
    if(within < 25980000, concat('uid-', toString(device), '-', toString(job)), '') AS workload_id,
    if(dice % 20 = 0, 'blank', 'ok') AS state, if(dice % 20 = 0, NULL, round((dice % 10007) / 10007, 4)) AS utilization,
    'bench' AS utilization_source, if(dice % 20 = 0, NULL, 1000000 * (dice % 80000)) AS memory_used_bytes,
    if(dice % 20 = 0, NULL, toFloat64(100 + dice % 600)) AS power_watts
FROM
(
    SELECT
        number % {devices:UInt64} AS device,
        ({day:UInt32} * 1440 + intDiv(number, {devices:UInt64}) + 1) * 60000 AS offset_ms,
        cityHash64(number, {day:UInt32}) AS dice,
        toInt64(offset_ms) - device * 7919 % 600000 - 1 AS since,
        intDiv(greatest(since, 0), 26580000) AS job,
        greatest(since, 0) % 26580000 AS within
    FROM numbers({devices:UInt64} * 1440)
)
