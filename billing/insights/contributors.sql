-- One row: one of the {most} workloads that cost a tenant most on a day of the billing zone, or one of the models and
-- pools whose unallocated time cost the platform most.
-- Units:   cost: of the billing currency, as it is shown (nine digits), at the prices of daily_costs.sql.
-- Params:  start, end = [start, end); timezone; days, tenants, platforms: three arrays of one length, what is asked for.
SELECT
    toString(toDate(charge_period_start, {timezone:String})) AS day,
    allocation_id = '' AS is_platform,
    tenant,
    if(is_platform, '', project) AS project,
    if(is_platform, concat(model, if(pool = '', '', concat(' · ', pool))), workload_id) AS name,
    sum((toDecimal256(used_unit_ms + idle_unit_ms, 6) + toDecimal256(unmetered_unit_ms + unallocated_unit_ms, 6))
        * toDecimal256(if(is_platform, list_unit_price, contracted_unit_price), 9) / (device_units * 3600000)) AS cost
FROM ledger
WHERE charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
    AND (allocation_id != '' OR unallocated_unit_ms > 0)
    AND (day, toString(tenant), is_platform) IN (
        SELECT asked.1, asked.2, asked.3 FROM (
            SELECT arrayJoin(arrayZip({days:Array(String)}, {tenants:Array(String)}, {platforms:Array(UInt8)})) AS asked))
GROUP BY day, is_platform, tenant, project, name
ORDER BY day, is_platform, tenant, cost DESC, name
LIMIT {most:UInt32} BY day, is_platform, tenant
