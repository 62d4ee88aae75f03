-- One row: hours [first, next) in which holdings differ from what the last close published.   is_past: they may be closed;
-- else the difference is later, or of no length.
-- Params:  settled: current holdings of the allocations in alive, which are compared; until_ms: later hours are not closed.
--          touched: months of allocations that contain any in alive.
SELECT DISTINCT toUInt32(intDiv(from_ms, 3600000)) AS first, toUInt32(intDiv(to_ms - 1, 3600000) + 1) AS next, from_ms < to_ms AS is_past
FROM
(
    SELECT
        what,
        start_ms,
        arraySort(groupArrayIf(end_ms, is_new)) AS now,
        arraySort(groupArrayIf(end_ms, NOT is_new)) AS before,
        if(length(now) = 1 AND length(before) = 1, least(now[1], before[1]), start_ms) AS from_ms,
        least(arrayMax(arrayConcat(now, before)), {until_ms:Int64}) AS to_ms
    FROM
    (
        SELECT true AS is_new, start_ms, end_ms, cityHash64(
            claim, toString(cluster), toString(source), allocation_id, workload_id, toString(tenant), toString(project), toString(queue),
            toUInt8(preemptible), toString(node), toString(device_id), toString(partition_id), toString(partition_profile), toUInt32(units), toString(estimated),
            toString(cost_center), toString(reported_tenant), toString(reported_project), ifNull(toString(priority), ''), toUInt8(unmapped)) AS what
        FROM {settled:Identifier}
        UNION ALL
        SELECT false AS is_new, toUnixTimestamp64Milli(start_at) AS start_ms, ifNull(toUnixTimestamp64Milli(end_at), {forever:Int64}) AS end_ms, cityHash64(
            claim, toString(cluster), toString(source), allocation_id, workload_id, toString(tenant), toString(project), toString(queue),
            toUInt8(preemptible), toString(node), toString(device_id), toString(partition_id), toString(partition_profile), toUInt32(units), toString(estimated),
            toString(cost_center), toString(reported_tenant), toString(reported_project), ifNull(toString(priority), ''), toUInt8(unmapped)) AS what
        FROM allocations
        WHERE _partition_id IN {touched:Array(String)} AND allocation_hash IN {alive:Identifier}
    )
    GROUP BY what, start_ms
    HAVING now != before
)
