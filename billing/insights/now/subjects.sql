-- One row: a kind of holder that the rate card may price otherwise than another, of what is allocated at an instant.
-- subject: a number by which `held` finds its price.   priority: one of its level's.
-- Params:  those of ({places}); by_queue, by_preemptible, by_cluster, priority_bounds (see billing.rates.staging).
SELECT
    toString(o.model) AS model, toString(o.pool) AS pool, toString(o.partition_profile) AS partition_profile,
    o.tenant AS tenant,
    if({by_queue:UInt8}, toString(o.queue), '') AS queue,
    toUInt16(if(isNull(o.priority) OR empty({priority_bounds:Array(Int64)}), 0, 1 + arrayCount(x -> x <= o.priority, {priority_bounds:Array(Int64)}))) AS priority_level,
    toUInt8(if({by_preemptible:UInt8}, o.preemptible, false)) AS preemptible,
    if({by_cluster:UInt8}, toString(o.cluster), '') AS cluster,
    cityHash64(model, pool, partition_profile, tenant, queue, priority_level, preemptible, cluster) AS subject,
    min(o.priority) AS priority
FROM ({places}) AS o
WHERE o.device_id != ''
GROUP BY model, pool, partition_profile, tenant, queue, priority_level, preemptible, cluster
