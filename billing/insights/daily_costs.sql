-- One row: what a tenant ('' has no name) cost on a day of the billing zone, or the platform's unallocated time
-- (is_platform). A day without a row cost nothing, if it is closed.
-- Units:   cost: millionths of a unit-millisecond x price in billionths, by device_units; a tenant's at the contracted
--          price, the platform's at list. unpriced: millionths of a unit-millisecond without a price.
-- Params:  start, end = [start, end); timezone = where days are cut.
SELECT
    toString(toDate(charge_period_start, {timezone:String})) AS day,
    allocation_id = '' AS is_platform,
    tenant,
    device_units,
    max(billing_currency) AS currency,
    uniqExactIf(billing_currency, billing_currency != '') AS currencies,
    if(is_platform, list_unit_price, contracted_unit_price) AS price,
    sumIf(quantity, price IS NULL) AS unpriced,
    sum(quantity * toInt128(toDecimal128(ifNull(price, 0), 9) * 1000000000)) AS cost
FROM
(
    SELECT
        charge_period_start, allocation_id, tenant, device_units, billing_currency, list_unit_price, contracted_unit_price,
        toInt128(toDecimal128(used_unit_ms + idle_unit_ms, 6) * 1000000)
            + toInt128(unmetered_unit_ms + unallocated_unit_ms) * 1000000 AS quantity
    FROM ledger
    WHERE charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
        AND (allocation_id != '' OR unallocated_unit_ms > 0)
)
GROUP BY ALL
ORDER BY day, is_platform, tenant
