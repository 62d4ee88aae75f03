-- One row: a segment where no workload is alone, of a device that has a stream of its own: it is measured, too, for nobody (claim = 0).
INSERT INTO {ways:Identifier} (state_id, claim, hour, start_ms, level, stream, scale, cap, of_power, begin, stop)
SELECT state_id, 0 AS claim, hour, start_ms, 4 AS level, cityHash64(cluster, device_id, '', '') AS own_stream, 0 AS scale, 0 AS cap, true AS of_power,
    start_ms - toInt64(hour) * 3600000 AS begin, end_ms - toInt64(hour) * 3600000 AS stop
FROM
(
    SELECT state_id, hour, start_ms, end_ms FROM {segments:Identifier}
    WHERE NOT available OR length(arrayDistinct(active.3)) != 1
) AS segments
INNER JOIN (SELECT state_id, cluster, device_id FROM {states:Identifier}) AS states ON segments.state_id = states.state_id
WHERE own_stream IN
(
    SELECT stream FROM {speaking:Identifier}
    WHERE stream IN (SELECT cityHash64(cluster, device_id, '', '') FROM {states:Identifier})
)
