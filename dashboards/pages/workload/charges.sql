-- One row: what the workload is charged at one price and isolation level ('': unknown; warehouse/isolation.py, level_of_share). Units: GPU-hours; costs exact, NULL: no price is known.
-- from_at, to_at: the first and last instant that is charged so.
-- Parameters: workload String; those of ({ledger})
SELECT
    sku, model, partition_profile, multiIf(
        match(partition_id, '::[0-9]+$') OR match(device_id, '::[0-9]+$'), 'shared',
        match(partition_profile, '(?i)(^|[^a-z0-9])[0-9]+g\\.[0-9]+gb') OR startsWith(partition_id, 'MIG-'), 'partitioned',
        partition_profile != '' OR partition_id != '' OR startsWith(estimated, 'device unknown'), '',
        units >= device_units, 'exclusive',
        'shared') AS isolation_level, any(price) AS unit_price,
    min(l.charge_period_start) AS from_at, max(l.charge_period_end) AS to_at,
    sum(l.allocated) AS gpu_hours, sum(l.list_cost) AS list_cost, sum(l.billed_cost) AS billed_cost
FROM ({ledger}) AS l
WHERE is_held AND workload_id = {workload:String}
GROUP BY sku, model, partition_profile, isolation_level, price
ORDER BY list_cost DESC NULLS LAST, gpu_hours DESC
