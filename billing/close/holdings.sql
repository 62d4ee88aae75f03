-- One row: an allocation holds units of an available device during [start_ms, end_ms) of an hour.
-- Shape:   ways = the sample streams that may say how it was used, best first: (level, stream, scale, cap):
--          a utilization x scale = units in use, of which at most cap are this workload's.
--          1 the workload on its partition; 2 everybody on the partition, if the workload is alone on it;
--          3 the workload on the device;    4 everybody on the device, if the workload is alone on it.
-- Traps:   a workload with several allocations on the device uses them in proportion, so cap is its units together.
CREATE TABLE {holdings:Identifier} ENGINE = Memory AS
SELECT
    holder.1 AS claim,
    hour,
    held.start_ms AS start_ms,
    held.end_ms AS end_ms,
    state_id,
    holder.2 AS units,
    cityHash64(product, payer) AS subject,
    arrayFilter(
        way -> way.1 > 0,
        [
            (if(holder.4 != 0, 1, 0), stream_1, partition_units, workload_partition_units),
            (if(holder.4 != 0 AND alone_on_partition, 2, 0), stream_2, partition_units, workload_partition_units),
            (3, stream_3, toInt64(device_units), workload_units),
            (if(alone, 4, 0), stream_4, toInt64(device_units), workload_units)
        ]) AS ways
FROM
(
    SELECT
        hour, start_ms, end_ms, state_id, device_units, holder,
        length(active) = 1 OR length(arrayDistinct(active.3)) = 1 AS alone,
        if(length(active) = 1, active, arrayFilter(x -> x.4 = holder.4, active)) AS on_partition,
        length(on_partition) = 1 OR length(arrayDistinct(on_partition.3)) = 1 AS alone_on_partition,
        toInt64(arraySum(on_partition.2)) AS partition_units,
        toInt64(arraySum(arrayMap(x -> if(x.3 = holder.3, x.2, 0), on_partition))) AS workload_partition_units,
        toInt64(arraySum(arrayMap(x -> if(x.3 = holder.3, x.2, 0), active))) AS workload_units
    FROM {segments:Identifier}
    ARRAY JOIN active AS holder
    WHERE available
) AS held
INNER JOIN
(
    SELECT claim, payer, stream_1, stream_2, stream_3, stream_4
    FROM {settled:Identifier}
    WHERE start_ms < {to_ms:Int64} AND end_ms > {from_ms:Int64}
) AS claims ON holder.1 = claims.claim
INNER JOIN (SELECT state_id, product FROM {states:Identifier}) AS states ON held.state_id = states.state_id
