-- One row: an allocation holds units of an available device during [start_ms, end_ms) of an hour.
-- Shape:   levels = the sample streams that may say how it was used, best first:
--          (level, stream, scale, cap): a utilization x scale = units in use, at most cap of them are this workload's.
--          1 the workload on its partition; 2 everybody on the partition, if the workload is alone on it;
--          3 the workload on the device;    4 everybody on the device, if the workload is alone on it.
-- Traps:   a workload with several allocations on the device uses them in proportion, so cap is its units together.
CREATE TABLE {holdings:Identifier} ENGINE = Memory AS
SELECT
    holder.1 AS claim,
    hour,
    start_ms,
    end_ms,
    state_id,
    device_units,
    holder.2 AS units,
    claims.tenant AS tenant,
    claims.partition_profile AS partition_profile,
    arrayFilter(
        level -> level.1 > 0,
        [
            (if(claims.partition_id != '' , 1, 0), cityHash64(claims.cluster, claims.device_id, claims.partition_id, toLowCardinality(claims.workload_id)), partition_units, workload_partition_units),
            (if(claims.partition_id != '' AND length(arrayDistinct(on_partition.3)) = 1, 2, 0), cityHash64(claims.cluster, claims.device_id, claims.partition_id, toLowCardinality('')), partition_units, workload_partition_units),
            (3, cityHash64(claims.cluster, claims.device_id, toLowCardinality(''), toLowCardinality(claims.workload_id)), toInt64(device_units), workload_units),
            (if(length(arrayDistinct(active.3)) = 1, 4, 0), cityHash64(claims.cluster, claims.device_id, toLowCardinality(''), toLowCardinality('')), toInt64(device_units), workload_units)
        ]) AS levels
FROM
(
    SELECT
        segments.*,
        arrayFilter(x -> x.4 = holder.4, active) AS on_partition,
        toInt64(arraySum(on_partition.2)) AS partition_units,
        toInt64(arraySum(arrayFilter(x -> x.3 = holder.3, on_partition).2)) AS workload_partition_units,
        toInt64(arraySum(arrayFilter(x -> x.3 = holder.3, active).2)) AS workload_units,
        holder
    FROM {segments:Identifier} AS segments
    ARRAY JOIN active AS holder
    WHERE available
) AS held
INNER JOIN {settled:Identifier} AS claims ON holder.1 = claims.claim
