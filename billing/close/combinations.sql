-- One row: a combination of values by which a tenant mapping can tell claims apart.
-- Params:  workload_patterns = regular expressions; workloads = which of them a name matches, as 0101.
SELECT DISTINCT
    tenant, project, queue, cluster, source,
    arrayStringConcat(arrayMap(pattern -> toString(match(workload_id, pattern)), {workload_patterns:Array(String)})) AS workloads
FROM {settled:Identifier}
ORDER BY ALL
