-- One row: a device was as told during [start_ms, end_ms). A row of the device table holds until the next one.
-- Traps:   of two rows of the same device and instant the worse state counts, whichever came first.
CREATE TABLE {states:Identifier} ENGINE = Memory AS
SELECT
    cityHash64(cluster, device_id, start_ms) AS state_id,
    cluster,
    node,
    device_id,
    model,
    pool,
    units,
    state = 'available' AS available,
    start_ms,
    end_ms
FROM
(
    SELECT
        *,
        toUnixTimestamp64Milli(ts) AS start_ms,
        leadInFrame(start_ms, 1, {forever:Int64}) OVER (
            PARTITION BY cluster, device_id ORDER BY start_ms
            ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS end_ms
    FROM
    (
        SELECT cluster, device_id, ts, told.1 AS state, told.2 AS units, told.3 AS model, told.4 AS pool, told.5 AS node
        FROM
        (
            SELECT cluster, device_id, ts, max((state, units, model, pool, node)) AS told
            FROM devices
            GROUP BY cluster, device_id, ts
        )
    )
)
WHERE state != 'removed'
