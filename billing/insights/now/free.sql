-- One row: a model and pool with the GPUs that nobody has at an instant: available, less what is allocated of them, shares as
-- fractions. Without a model: what is allocated without a device, which may be any of them, negative.
-- cluster: '' unless prices depend on it.
-- Params:  at DateTime64(3) (UTC); by_cluster UInt8; pools, models, clusters Array(String), empty: all; the others of ({places}), of
--          which tenants, projects and queues must be empty.
SELECT
    toString(d.model) AS model, toString(d.pool) AS pool, if({by_cluster:UInt8}, toString(d.cluster), '') AS cluster,
    sum(if(d.device_id = '', if(h.device_id = '', -h.held, 0), greatest(0, 1 - h.held))) AS gpus
FROM
(
    SELECT cluster, device_id, model, pool
    FROM devices_at(at = {at:DateTime64(3,'UTC')})
    WHERE state = 'available'
        AND (empty({pools:Array(String)}) OR has({pools:Array(String)}, pool))
        AND (empty({models:Array(String)}) OR has({models:Array(String)}, model))
        AND (empty({clusters:Array(String)}) OR has({clusters:Array(String)}, cluster))
) AS d
FULL JOIN
(
    SELECT
        o.cluster AS cluster, o.device_id AS device_id,
        sum(if(o.device_id = '', toFloat64(ifNull(o.gpus, 0)), if(o.device_units > 0, o.units / o.device_units, 0))) AS held
    FROM ({places}) AS o
    GROUP BY cluster, device_id
) AS h ON d.cluster = h.cluster AND d.device_id = h.device_id
GROUP BY model, pool, cluster
HAVING gpus != 0
ORDER BY model, pool, cluster
