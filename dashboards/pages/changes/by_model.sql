-- One row: what a tenant, project or workload had of one model in a period, of what pages show.
-- Units: GPU-hours; hours: those with a price; cost: exact, at the contracted price; idle_cost: of its idle part;
--        unpriced: hours without a price, which no cost contains.
-- Parameters: level String ('tenant' | 'project' | 'workload'); those of ({days})
SELECT
    multiIf({level:String} = 'tenant', tenant, {level:String} = 'project', project, workload_id) AS name,
    model,
    sumIf(l.allocated, l.billed_cost IS NOT NULL) AS hours,
    sumIf(l.allocated, l.billed_cost IS NULL) AS unpriced,
    ifNull(sum(l.billed_cost), 0) AS cost,
    ifNull(sum(toFloat64(l.billed_cost) * if(l.allocated = 0, 0, l.idle / l.allocated)), 0) AS idle_cost
FROM ({days}) AS l
WHERE is_held
GROUP BY name, model
ORDER BY name, model
