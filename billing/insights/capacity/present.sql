-- One row: a group of devices (as in hours.sql) in a closed hour, and how many of them were there at one instant, at most. Of two
-- that follow each other at one instant, as where one replaces the other, one is.
-- Traps:   a device's entries cover the time in which it was there and no other, and overlap: joined first, to be counted once.
-- Params:  those of entries.sql.
WITH
    spans AS
    (
        SELECT
            hour, cluster, pool, model, device_id,
            toUnixTimestamp64Milli(charge_period_start) AS start_ms, toUnixTimestamp64Milli(charge_period_end) AS end_ms,
            max(end_ms) OVER (
                PARTITION BY hour, cluster, pool, model, device_id ORDER BY start_ms, end_ms
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reached_ms
        FROM ({entries})
    ),
    stretches AS
    (
        SELECT hour, cluster, pool, model, device_id, min(start_ms) AS start_ms, max(end_ms) AS end_ms
        FROM
        (
            SELECT
                *,
                countIf(start_ms > reached_ms) OVER (
                    PARTITION BY hour, cluster, pool, model, device_id ORDER BY start_ms, end_ms
                    ROWS UNBOUNDED PRECEDING) AS stretch
            FROM spans
        )
        GROUP BY hour, cluster, pool, model, device_id, stretch
    )
SELECT hour AS at, cluster, pool, model, maxIntersections(s.start_ms, s.end_ms) AS devices
FROM stretches AS s
GROUP BY hour, cluster, pool, model
