-- One row: an hour in which the device's power or memory was measured, in order; NULL: not reported.
-- memory_bytes: of everybody on it; power_watts: of the whole device. Averages over the time for which they were reported, from
-- the hourly sums that are kept at ingest.
-- Some sources report a device all the time and each holder beside it, some the device while nobody holds it, else its holder, and
-- some the holders alone. Where one stream has the device's own memory, or its power, for the whole time, that counts; else
-- memory is the sum of everybody's, over the time for which any was reported, and power, which is the device's whoever reports it,
-- the average of all.
-- Traps:   a stream's samples count alike, as if all were as long as the hour's longest: sums of before migration 0116 know no more,
--          and each further column takes longer than all else here.
-- Parameters: device String; start, end DateTime64(3) (UTC)
WITH clusters AS
(
    SELECT cluster FROM devices WHERE device_id = {device:String}
    UNION DISTINCT
    SELECT cluster FROM allocations WHERE device_id = {device:String}
)
SELECT
    hour,
    max(until) - min(since) + max(longest) AS span,
    groupArrayIf((powered, microwatts), powered > 0) AS powers,
    arrayFirst(one -> one.1 >= 0.95 * span, powers) AS power,
    groupArrayIf((is_own, sized, bytes), sized > 0) AS sizes,
    arrayFirst(one -> one.1 AND one.2 >= 0.95 * span, sizes) AS own,
    multiIf(
        empty(powers), NULL,
        power.1 > 0, power.2,
        arraySum(one -> one.1 * one.2, powers) / arraySum(one -> one.1, powers)) / 1e6 AS power_watts,
    arrayMap(one -> (least(1, one.2 / span), one.3), sizes) AS parts,
    multiIf(
        empty(sizes), NULL,
        own.1, own.3,
        arraySum(one -> one.1 * one.2, parts) / least(1, arraySum(one -> one.1, parts))) AS memory_bytes
FROM
(
    SELECT
        hour,
        stream GLOBAL IN (SELECT cityHash64(cluster, {device:String}, '', '') FROM clusters) AS is_own,
        toInt64(bitShiftRight(min(h.first), 64)) AS since,
        toInt64(bitShiftRight(max(h.last), 32)) AS until,
        max(h.longest_ms) AS longest,
        sum(h.powered) * longest AS powered,
        sum(h.powers) / sum(h.powered) AS microwatts,
        sum(h.sized) * longest AS sized,
        sum(h.memories) / sum(h.sized) AS bytes
    FROM stream_hours AS h
    WHERE hour >= {start:DateTime64(3,'UTC')} AND hour < {end:DateTime64(3,'UTC')}
        AND stream GLOBAL IN (
            SELECT cityHash64(cluster, {device:String}, '', '') FROM clusters
            UNION DISTINCT
            SELECT cityHash64(cluster, device_id, '', workload_id) FROM allocations WHERE device_id = {device:String}
        )
    GROUP BY hour, stream
)
GROUP BY hour
ORDER BY hour
