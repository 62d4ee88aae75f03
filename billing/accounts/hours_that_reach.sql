-- One row: the first hour in which the cost that a tenant (or one project of it) ran up since from_hour reaches a
-- level, and what had accrued before that hour. None where it does not before to_hour.
-- Units:   level, before: unit-milliseconds x 10^6 x (scale / device_units) x price x 10^9 (billing.exact.Scale).
-- Params:  tenants, projects, any_project, from_hours, to_hours, levels (text), currencies ('': any): arrays, an element
--          for each question; scale = a common multiple of all device_units.
WITH
    asked AS
    (
        SELECT
            tupleElement(one, 1) AS question,
            tupleElement(one, 2) AS asked_tenant,
            tupleElement(one, 3) AS asked_project,
            tupleElement(one, 4) AS any_project,
            tupleElement(one, 5) AS from_hour,
            tupleElement(one, 6) AS to_hour,
            toInt256(tupleElement(one, 7)) AS level,
            tupleElement(one, 8) AS asked_currency
        FROM
        (
            SELECT arrayJoin(arrayZip(
                range(length({tenants:Array(String)})), {tenants:Array(String)}, {projects:Array(String)},
                {any_project:Array(UInt8)}, {from_hours:Array(DateTime('UTC'))}, {to_hours:Array(DateTime('UTC'))},
                {levels:Array(String)}, {currencies:Array(String)}
            )) AS one
        )
    ),
    hourly AS
    (
        SELECT
            tenant, project, hour, currency,
            sum(held * intDiv(toInt256({scale:Int64}), device_units) * price_nano) AS cost
        FROM
        (
            SELECT
                toString(tenant) AS tenant, toString(project) AS project, hour, device_units,
                toString(billing_currency) AS currency,
                toInt256(toDecimal128(assumeNotNull(contracted_unit_price), 9) * 1000000000) AS price_nano,
                toInt256(sum(used_unit_ms + idle_unit_ms) * 1000000) + toInt256(sum(unmetered_unit_ms)) * 1000000 AS held
            FROM ledger
            WHERE contracted_unit_price IS NOT NULL AND has({tenants:Array(String)}, tenant)
                AND hour >= arrayMin({from_hours:Array(DateTime('UTC'))})
                AND hour < arrayMax({to_hours:Array(DateTime('UTC'))})
            GROUP BY tenant, project, hour, currency, device_units, contracted_unit_price
        )
        GROUP BY tenant, project, hour, currency
    ),
    accrued AS
    (
        SELECT question, level, hour, cost, sum(cost) OVER (PARTITION BY question ORDER BY hour) AS reached
        FROM
        (
            SELECT question, level, hour, sum(cost) AS cost
            FROM hourly
            INNER JOIN asked ON hourly.tenant = asked.asked_tenant
            WHERE (any_project = 1 OR project = asked_project) AND asked_currency IN ('', currency)
                AND hour >= from_hour AND hour < to_hour
            GROUP BY question, level, hour
        )
    )
SELECT question, min(accrued.hour) AS hour, argMin(reached - cost, accrued.hour) AS before
FROM accrued
WHERE reached >= level
GROUP BY question
ORDER BY question
