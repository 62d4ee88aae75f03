-- One row: when a workload was last sampled on a device, at or before an instant (ms since the epoch); null: never.
SELECT toUnixTimestamp64Milli(maxOrNull(ts)) AS seen
FROM samples
WHERE cluster = {cluster:String} AND device_id = {device:String} AND workload_id = {workload:String}
    AND batch GLOBAL IN {batches:Identifier}
    AND ts <= fromUnixTimestamp64Milli({before:Int64}, 'UTC')
