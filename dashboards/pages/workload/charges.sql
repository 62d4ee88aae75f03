-- One row: what the workload is charged at one price, of whole devices or of parts. Units: GPU-hours; costs exact, NULL: no price is known.
-- Parameters: workload String; those of ({ledger})
SELECT
    sku, model, partition_profile, units >= device_units AS is_whole, any(price) AS unit_price,
    sum(l.allocated) AS gpu_hours, sum(l.list_cost) AS list_cost, sum(l.billed_cost) AS billed_cost
FROM ({ledger}) AS l
WHERE is_held AND workload_id = {workload:String}
GROUP BY sku, model, partition_profile, is_whole, price
ORDER BY list_cost DESC NULLS LAST, gpu_hours DESC
