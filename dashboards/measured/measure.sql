-- Writes what was measured of each device in some closed hours: power_watts and memory_bytes as
-- dashboards/pages/fleet/measured.sql says of one device, all else as latest.sql there.
-- Traps:   a device that two clusters report has its power and memory in one of its rows, as it has one curve on its page.
-- Parameters: hours Array(UInt32), in Unix seconds, inputs Array(UInt64), of each
INSERT INTO device_hours (hour, inputs, cluster, device_id, power_watts, memory_bytes, highest_memory, highest_celsius, mean_watts)
WITH
    streams AS
    (
        SELECT
            hour, stream,
            toInt64(bitShiftRight(min(h.first), 64)) AS since,
            toInt64(bitShiftRight(max(h.last), 32)) AS until,
            max(h.longest_ms) AS longest,
            sum(h.powered) * longest AS powered,
            sum(h.powers) / sum(h.powered) AS microwatts,
            sum(h.sized) * longest AS sized,
            sum(h.memories) / sum(h.sized) AS bytes
        FROM stream_hours AS h
        WHERE hour IN {hours:Array(UInt32)}
        GROUP BY hour, stream
    ),
    named AS
    (
        SELECT stream, any(cluster) AS cluster, device_id, max(is_own) AS is_own
        FROM
        (
            SELECT cluster, device_id, cityHash64(cluster, device_id, '', '') AS stream, true AS is_own
            FROM (SELECT cluster, device_id FROM devices UNION DISTINCT SELECT cluster, device_id FROM allocations)
            UNION ALL
            SELECT cluster, device_id, cityHash64(cluster, device_id, '', workload_id) AS stream, workload_id = '' AS is_own
            FROM allocations
        )
        WHERE device_id != '' AND stream IN (SELECT stream FROM streams)
        GROUP BY stream, device_id
    ),
    averages AS
    (
        SELECT
            s.hour AS hour, any(n.cluster) AS cluster, n.device_id AS device_id,
            max(s.until) - min(s.since) + max(s.longest) AS span,
            groupArrayIf((s.powered, s.microwatts), s.powered > 0) AS powers,
            arrayFirst(one -> one.1 >= 0.95 * span, powers) AS power,
            groupArrayIf((n.is_own, s.sized, s.bytes), s.sized > 0) AS sizes,
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
        FROM streams AS s
        INNER JOIN named AS n ON s.stream = n.stream
        GROUP BY hour, device_id
    ),
    samples_of_hours AS
    (
        SELECT
            toDateTime(intDiv(toUnixTimestamp64Milli(ts) - 1, 3600000) * 3600, 'UTC') AS hour, cluster, device_id,
            maxOrNull(memory_used_bytes / nullIf(memory_total_bytes, 0)) AS highest_memory,
            maxOrNull(temperature_celsius) AS highest_celsius,
            avgOrNull(power_watts) AS mean_watts
        FROM samples
        WHERE ts > toDateTime64(arrayMin({hours:Array(UInt32)}), 3, 'UTC')
            AND ts <= toDateTime64(arrayMax({hours:Array(UInt32)}) + 3600, 3, 'UTC')
            AND partition_id = '' AND device_id != ''
        GROUP BY hour, cluster, device_id
        HAVING toUnixTimestamp(hour) IN {hours:Array(UInt32)}
    )
SELECT
    hour, {inputs:Array(UInt64)}[indexOf({hours:Array(UInt32)}, toUnixTimestamp(hour))], cluster, device_id,
    maxOrNull(watts), maxOrNull(bytes), maxOrNull(part), maxOrNull(celsius), maxOrNull(mean)
FROM
(
    SELECT hour, cluster, device_id, power_watts AS watts, memory_bytes AS bytes, NULL AS part, NULL AS celsius, NULL AS mean
    FROM averages
    UNION ALL
    SELECT hour, cluster, device_id, NULL, NULL, highest_memory, highest_celsius, mean_watts
    FROM samples_of_hours
)
GROUP BY hour, cluster, device_id
