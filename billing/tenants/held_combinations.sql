-- One row: what a combination held in the books while no rule of a mapping starts or ends, and whose it is there.
-- Units:   micro_ms: millionths of a unit-millisecond.
-- Params:  workload_patterns = regular expressions; workloads = which of them a name matches, as 0101; bounds = the
--          instants (ms) at which a rule starts or ends, in order.
-- Traps:   an entry counts where it starts, also if a bound lies inside it.
SELECT
    reported_tenant,
    reported_project,
    queue,
    cluster,
    sources.source AS source,
    arrayStringConcat(arrayMap(pattern -> toString(match(workload_id, pattern)), {workload_patterns:Array(String)})) AS workloads,
    tenant,
    project,
    cost_center,
    device_units,
    arrayCount(x -> x <= toUnixTimestamp64Milli(charge_period_start), {bounds:Array(Int64)}) AS era,
    toUnixTimestamp64Milli(min(charge_period_start)) AS first_ms,
    toInt128(sum(used_unit_ms + idle_unit_ms + unmetered_unit_ms) * 1000000) AS micro_ms
FROM ledger
LEFT ANY JOIN (SELECT cluster, allocation_id, any(source) AS source FROM allocations GROUP BY cluster, allocation_id) AS sources
    ON ledger.cluster = sources.cluster AND ledger.allocation_id = sources.allocation_id
WHERE ledger.allocation_id != ''
GROUP BY reported_tenant, reported_project, queue, ledger.cluster AS cluster, source, workloads, tenant, project, cost_center, device_units, era
ORDER BY reported_tenant, reported_project, queue, cluster, source, workloads, era
