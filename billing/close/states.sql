-- One row: a device's state as reported, during [start_ms, end_ms). A device row holds until the next one that differs.
-- Shape:   priced_cluster = the cluster if a price depends on it, else ''; product = what a price depends on, of a device.
-- Params:  by_cluster (see billing.rates.staging).
-- Traps:   of two rows of the same device and instant the worse state counts, whichever came first.
CREATE TABLE {states:Identifier} ENGINE = Memory AS
WITH
    reported AS
    (
        SELECT cluster, device_id, toUnixTimestamp64Milli(ts) AS start_ms, max((state, units, model, pool, node)) AS reported_state
        FROM devices
        WHERE batch IN {batches:Identifier}
        GROUP BY cluster, device_id, ts
    ),
    changes AS
    (
        SELECT cluster, device_id, start_ms, reported_state,
            lagInFrame(reported_state) OVER (PARTITION BY cluster, device_id ORDER BY start_ms ROWS UNBOUNDED PRECEDING) AS state_before,
            row_number() OVER (PARTITION BY cluster, device_id ORDER BY start_ms) AS place
        FROM reported
    )
SELECT
    cityHash64(cluster, device_id, start_ms) AS state_id,
    cityHash64(cluster, device_id) AS device,
    cluster,
    reported_state.5 AS node,
    device_id,
    reported_state.3 AS model,
    reported_state.4 AS pool,
    reported_state.2 AS units,
    reported_state.1 = 'available' AS available,
    if({by_cluster:UInt8}, cluster, '') AS priced_cluster,
    cityHash64(model, pool, priced_cluster) AS product,
    start_ms,
    end_ms
FROM
(
    SELECT
        *,
        leadInFrame(start_ms, 1, {forever:Int64}) OVER (
            PARTITION BY cluster, device_id ORDER BY start_ms
            ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS end_ms
    FROM changes
    WHERE place = 1 OR reported_state != state_before
)
WHERE reported_state.1 != 'removed'
