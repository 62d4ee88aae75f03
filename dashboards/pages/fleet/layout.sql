-- One row: a share of a device that can be shared (more than one unit) as it was held at an instant; one row without a
-- workload for a device of which nothing was. units: held, of device_units.
-- Parameters: until DateTime64(3) (UTC); device String, empty: all; pools, models, clusters Array(String), empty: all
SELECT
    d.cluster AS cluster, d.node AS node, d.device_id AS device_id, d.model AS model, d.units AS device_units,
    a.allocation_id AS allocation_id, a.workload_id AS workload_id, a.tenant AS tenant, a.partition_id AS partition_id,
    a.partition_profile AS partition_profile, a.units AS units
FROM (
    SELECT cluster, device_id, argMax((v.node, v.model, v.units, v.pool), (v.ts, v.state, v.units, v.model, v.pool, v.node)) AS reported,
        reported.1 AS node, reported.2 AS model, reported.3 AS units, reported.4 AS pool
    FROM devices AS v
    WHERE v.ts < {until:DateTime64(3,'UTC')}
    GROUP BY cluster, device_id
    HAVING reported.3 > 1
) AS d
LEFT JOIN
(
    SELECT cluster, device_id, allocation_id, workload_id, tenant, partition_id, partition_profile, units
    FROM allocations
    WHERE start_at < {until:DateTime64(3,'UTC')} AND ifNull(end_at, {until:DateTime64(3,'UTC')}) >= {until:DateTime64(3,'UTC')}
) AS a ON d.cluster = a.cluster AND d.device_id = a.device_id
WHERE ({device:String} = '' OR d.device_id = {device:String})
    AND (empty({pools:Array(String)}) OR has({pools:Array(String)}, d.pool))
    AND (empty({models:Array(String)}) OR has({models:Array(String)}, d.model))
    AND (empty({clusters:Array(String)}) OR has({clusters:Array(String)}, d.cluster))
ORDER BY d.node, d.device_id, a.partition_id, a.workload_id
LIMIT 1000
