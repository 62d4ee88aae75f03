-- One row: what idle time cost a tenant by the hours that it was in, what unmetered time cost it, and what unallocated time
-- cost the platform (is_platform), on devices with so many units.
-- Units:   *_cost: millionths of a unit-millisecond x price in billionths, without what has no price; a tenant's at the
--          contracted price, the platform's at list. *_micro_ms: millionths of a unit-millisecond, all of it.
-- Shape:   an hour of a holder is shared (it holds less than a device or MIG instance), dim (metered for less than
--          {min_coverage} of it), quiet (used for at most {idle_below} of the metered time) or in use, as in holders.sql.
-- Params:  start, end = [start, end); min_coverage, idle_below = parts of 1 in millionths; tenant, workload: '' = all, and
--          the platform too.
SELECT
    is_platform, tenant, device_units,
    max(a_currency) AS currency,
    min(another_currency) AS other_currency,
    sum(idle) AS idle_micro_ms,
    sum(unpriced_idle) AS unpriced_idle_micro_ms,
    sumIf(by_hour.idle_cost, NOT is_own) AS shared_cost,
    sumIf(by_hour.idle_cost, is_own AND is_dim) AS dim_cost,
    sumIf(by_hour.idle_cost, is_own AND is_quiet) AS quiet_cost,
    sumIf(by_hour.idle_cost, is_own AND NOT is_dim AND NOT is_quiet) AS in_use_cost,
    sum(unmetered) AS unmetered_micro_ms,
    sum(unpriced_unmetered) AS unpriced_unmetered_micro_ms,
    sum(by_hour.unmetered_cost) AS unmetered_cost,
    sum(unallocated) AS unallocated_micro_ms,
    sum(unpriced_unallocated) AS unpriced_unallocated_micro_ms,
    sum(by_hour.unallocated_cost) AS unallocated_cost
FROM
(
    SELECT
        allocation_id = '' AS is_platform, tenant, device_units,
        max(billing_currency) AS a_currency,
        min(if(billing_currency = '', NULL, billing_currency)) AS another_currency,
        toInt128(sum(used_unit_ms) * 1000000) AS used,
        toInt128(sum(idle_unit_ms) * 1000000) AS idle,
        toInt128(sum(unmetered_unit_ms)) * 1000000 AS unmetered,
        toInt128(sum(unallocated_unit_ms)) * 1000000 AS unallocated,
        toInt128(sumIf(idle_unit_ms, contracted_unit_price IS NULL) * 1000000) AS unpriced_idle,
        toInt128(sumIf(unmetered_unit_ms, contracted_unit_price IS NULL)) * 1000000 AS unpriced_unmetered,
        toInt128(sumIf(unallocated_unit_ms, list_unit_price IS NULL)) * 1000000 AS unpriced_unallocated,
        sum(toInt128(toDecimal128(idle_unit_ms, 6) * 1000000)
            * toInt128(toDecimal128(ifNull(contracted_unit_price, 0), 9) * 1000000000)) AS idle_cost,
        sum(toInt128(unmetered_unit_ms) * 1000000
            * toInt128(toDecimal128(ifNull(contracted_unit_price, 0), 9) * 1000000000)) AS unmetered_cost,
        sum(toInt128(unallocated_unit_ms) * 1000000
            * toInt128(toDecimal128(ifNull(list_unit_price, 0), 9) * 1000000000)) AS unallocated_cost,
        max(ledger.units) = device_units OR argMax(partition_profile, charge_period_start) != '' AS is_own,
        (used + idle) * 1000000 < (used + idle + unmetered) * {min_coverage:UInt32} AS is_dim,
        NOT is_dim AND used * 1000000 <= (used + idle) * {idle_below:UInt32} AS is_quiet
    FROM ledger
    WHERE charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
        AND ({tenant:String} = '' OR ledger.tenant = {tenant:String} AND allocation_id != '')
        AND ({workload:String} = '' OR ledger.workload_id = {workload:String} AND allocation_id != '')
    GROUP BY cluster, allocation_id, device_id, partition_id, tenant, hour, device_units
) AS by_hour
GROUP BY is_platform, tenant, device_units
ORDER BY is_platform, tenant, device_units
