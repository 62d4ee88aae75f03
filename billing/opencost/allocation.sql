-- One row: what holders of one value of each dimension asked for (empty where not asked for), or the platform (held =
-- 0), have in one step, at one price, on devices with one number of units, within one cluster and node where idle
-- time is kept apart by them. An entry that a step cuts is prorated linearly over its own span, so that the parts in
-- adjoining steps add up to it exactly.
-- Units:   *_micro_ms: millionths of a unit-millisecond; prices per GPU-hour; from_ms, to_ms: since the epoch. A
--          described property is NULL where it differs. cut: entries of which only a part is counted.
-- Params:  edges = where steps start, and the end of the last (ms); by = names of dimensions; apart = by what idle time
--          is kept apart (cluster, node); wanted_* = the values that match (none: all of them).
WITH
    steps AS
    (
        SELECT
            number AS step,
            {edges:Array(Int64)}[number + 1] AS step_from,
            {edges:Array(Int64)}[number + 2] AS step_to,
            arrayJoin(range(intDiv(step_from, 3600000), intDiv(step_to - 1, 3600000) + 1)) AS hour_number
        FROM numbers(toUInt64(length({edges:Array(Int64)}) - 1))
    ),
    parts AS
    (
        SELECT
            steps.step AS step,
            cluster, node, project, workload_id, tenant, queue, model, pool, device_id,
            allocation_id != '' AS held,
            units < device_units AS partly,
            device_units, list_unit_price, contracted_unit_price, billing_currency,
            toUnixTimestamp64Milli(charge_period_start) AS since,
            toUnixTimestamp64Milli(charge_period_end) AS until,
            greatest(since, step_from) AS part_from,
            least(until, step_to) AS part_to,
            toInt128(until - since) AS whole,
            toInt128(part_from - since) AS before,
            toInt128(part_to - since) AS through,
            toInt128(used_unit_ms * toDecimal128(1000000, 0)) AS used,
            toInt128(idle_unit_ms * toDecimal128(1000000, 0)) AS idle,
            toInt128(unmetered_unit_ms) * 1000000 AS unmetered,
            toInt128(unallocated_unit_ms) * 1000000 AS unallocated,
            toInt128(unavailable_unit_ms) * 1000000 AS unavailable
        FROM ledger
        INNER JOIN steps ON intDiv(toInt64(toUnixTimestamp(ledger.hour)), 3600) = toInt64(steps.hour_number)
        WHERE ledger.hour >= fromUnixTimestamp64Milli({edges:Array(Int64)}[1] - 3600000, 'UTC')
            AND ledger.hour < fromUnixTimestamp64Milli({edges:Array(Int64)}[-1], 'UTC')
            AND since < step_to AND until > step_from
    )
SELECT
    step,
    held,
    (empty({wanted_cluster:Array(String)}) OR has({wanted_cluster:Array(String)}, cluster))
        AND (empty({wanted_node:Array(String)}) OR has({wanted_node:Array(String)}, node))
        AND (empty({wanted_namespace:Array(String)}) OR has({wanted_namespace:Array(String)}, project))
        AND (empty({wanted_pod:Array(String)}) OR has({wanted_pod:Array(String)}, workload_id))
        AND (empty({wanted_tenant:Array(String)}) OR has({wanted_tenant:Array(String)}, tenant))
        AND (empty({wanted_queue:Array(String)}) OR has({wanted_queue:Array(String)}, queue))
        AND (empty({wanted_model:Array(String)}) OR has({wanted_model:Array(String)}, model))
        AND (empty({wanted_pool:Array(String)}) OR has({wanted_pool:Array(String)}, pool))
        AND (empty({wanted_device:Array(String)}) OR has({wanted_device:Array(String)}, device_id)) AS matched,
    if(held AND has({by:Array(String)}, 'cluster'), cluster, '') AS by_cluster,
    if(held AND has({by:Array(String)}, 'node'), node, '') AS by_node,
    if(held AND has({by:Array(String)}, 'namespace'), project, '') AS by_namespace,
    if(held AND has({by:Array(String)}, 'pod'), workload_id, '') AS by_pod,
    if(held AND has({by:Array(String)}, 'tenant'), tenant, '') AS by_tenant,
    if(held AND has({by:Array(String)}, 'queue'), queue, '') AS by_queue,
    if(held AND has({by:Array(String)}, 'model'), model, '') AS by_model,
    if(held AND has({by:Array(String)}, 'pool'), pool, '') AS by_pool,
    if(held AND has({by:Array(String)}, 'device'), device_id, '') AS by_device,
    if(has({apart:Array(String)}, 'cluster'), cluster, '') AS apart_cluster,
    if(has({apart:Array(String)}, 'node'), node, '') AS apart_node,
    device_units,
    list_unit_price,
    contracted_unit_price,
    billing_currency,
    sum(intDiv(used * through, whole) - intDiv(used * before, whole)) AS used_micro_ms,
    sum(intDiv(idle * through, whole) - intDiv(idle * before, whole)) AS idle_micro_ms,
    sum(intDiv(unmetered * through, whole) - intDiv(unmetered * before, whole)) AS unmetered_micro_ms,
    sum(intDiv(unallocated * through, whole) - intDiv(unallocated * before, whole)) AS unallocated_micro_ms,
    sum(intDiv(unavailable * through, whole) - intDiv(unavailable * before, whole)) AS unavailable_micro_ms,
    min(part_from) AS from_ms,
    max(part_to) AS to_ms,
    max(held AND partly) AS shared,
    if(min(cluster) = max(cluster), min(cluster), NULL) AS the_cluster,
    if(min(node) = max(node), min(node), NULL) AS the_node,
    if(min(project) = max(project), min(project), NULL) AS the_namespace,
    if(min(workload_id) = max(workload_id), min(workload_id), NULL) AS the_pod,
    if(min(tenant) = max(tenant), min(tenant), NULL) AS the_tenant,
    if(min(queue) = max(queue), min(queue), NULL) AS the_queue,
    if(min(model) = max(model), min(model), NULL) AS the_model,
    if(min(pool) = max(pool), min(pool), NULL) AS the_pool,
    if(min(device_id) = max(device_id), min(device_id), NULL) AS the_device,
    countIf(part_from != since OR part_to != until) AS cut
FROM parts
GROUP BY ALL
