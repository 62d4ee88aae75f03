-- One row: an hour and the fingerprint of its entries that lie in some months, but for whether they are estimated; of those
-- before, what sessions that go on into one of them held, and at what price.
-- Params:  starts_ms, ends_ms Array(Int64): the months; reach_ms: how long before them counts; settled: the claims.
WITH
    toUnixTimestamp64Milli(charge_period_start) AS begins,
    arrayExists((start, end) -> begins >= start AND begins < end, {starts_ms:Array(Int64)}, {ends_ms:Array(Int64)}) AS lies_in
SELECT toUInt32(intDiv(toUnixTimestamp(hour), 3600)) AS hour, sum(if(lies_in,
    cityHash64(
        cluster, node, device_id, model, pool, device_units, tenant, project, queue, workload_id, allocation_id,
        partition_id, partition_profile, units, preemptible, charge_period_start, charge_period_end, sku,
        ifNull(toString(list_unit_price), ''), ifNull(toString(contracted_unit_price), ''), billing_currency,
        used_unit_ms, idle_unit_ms, unmetered_unit_ms, unallocated_unit_ms, unavailable_unit_ms,
        reported_tenant, reported_project, cost_center, unmapped, ifNull(toString(priority), '')),
    cityHash64(
        cluster, allocation_id, device_units, tenant, project, sku, charge_period_start,
        ifNull(toString(list_unit_price), ''), ifNull(toString(contracted_unit_price), ''),
        used_unit_ms + idle_unit_ms + unmetered_unit_ms))) AS content
FROM {entries:Identifier} AS entries
LEFT JOIN
(
    SELECT cluster, allocation_id, groupUniqArray(month.1) AS goes_into
    FROM {settled:Identifier}
    ARRAY JOIN arrayZip({starts_ms:Array(Int64)}, {ends_ms:Array(Int64)}) AS month
    WHERE start_ms < month.2 AND end_ms > month.1
    GROUP BY cluster, allocation_id
) AS sessions USING (cluster, allocation_id)
WHERE lies_in OR arrayExists(start -> begins < start AND begins >= start - {reach_ms:Int64}, goes_into)
GROUP BY hour
