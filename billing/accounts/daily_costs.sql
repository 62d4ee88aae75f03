-- One row: what a project of a tenant cost in a day of the billing zone, as far as its prices are known.
-- Units:   cost: unit-milliseconds x 10^6 x (scale / device_units) x price x 10^9 (billing.exact.Scale);
--          unpriced, held: unit-milliseconds x 10^6 x (scale / device_units).
-- Params:  start, end = [start, end), of which no entry crosses a bound; tenants; timezone = where days are cut;
--          scale = a common multiple of all device_units.
SELECT
    tenant,
    project,
    day,
    groupUniqArrayIf(currency, currency != '') AS currencies,
    sum(part * ifNull(price_nano, 0)) AS cost,
    sumIf(part, price_nano IS NULL) AS unpriced,
    sum(part) AS held
FROM
(
    SELECT
        toString(tenant) AS tenant,
        toString(project) AS project,
        toDate(charge_period_start, {timezone:String}) AS day,
        billing_currency AS currency,
        toInt256(toDecimal128(contracted_unit_price, 9) * 1000000000) AS price_nano,
        (toInt256(sum(used_unit_ms + idle_unit_ms) * 1000000) + toInt256(sum(unmetered_unit_ms)) * 1000000)
            * intDiv(toInt256({scale:Int64}), device_units) AS part
    FROM ledger
    WHERE has({tenants:Array(String)}, tenant)
        AND charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
    GROUP BY tenant, project, day, device_units, contracted_unit_price, currency
)
GROUP BY tenant, project, day
ORDER BY tenant, project, day
