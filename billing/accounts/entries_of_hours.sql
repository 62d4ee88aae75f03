-- One row: what a tenant (or one project of it) held in an hour between the same two instants, at one price, on
-- devices with one number of units.
-- Units:   held_micro_ms: millionths of a unit-millisecond; price per GPU-hour.
-- Params:  tenants, projects, any_project, hours, currencies ('': any): arrays, an element for each question.
WITH
    asked AS
    (
        SELECT
            tupleElement(one, 1) AS question,
            tupleElement(one, 2) AS asked_tenant,
            tupleElement(one, 3) AS asked_project,
            tupleElement(one, 4) AS any_project,
            tupleElement(one, 5) AS asked_hour,
            tupleElement(one, 6) AS asked_currency
        FROM
        (
            SELECT arrayJoin(arrayZip(
                range(length({tenants:Array(String)})), {tenants:Array(String)}, {projects:Array(String)},
                {any_project:Array(UInt8)}, {hours:Array(DateTime('UTC'))}, {currencies:Array(String)}
            )) AS one
        )
    )
SELECT
    question,
    charge_period_start,
    charge_period_end,
    device_units,
    contracted_unit_price,
    toInt256(sum(used_unit_ms + idle_unit_ms) * 1000000) + toInt256(sum(unmetered_unit_ms)) * 1000000 AS held_micro_ms
FROM
(
    SELECT
        hour, toString(tenant) AS tenant, toString(project) AS project, charge_period_start, charge_period_end,
        device_units, contracted_unit_price, toString(billing_currency) AS currency,
        used_unit_ms, idle_unit_ms, unmetered_unit_ms
    FROM ledger
    WHERE contracted_unit_price IS NOT NULL
        AND has({tenants:Array(String)}, tenant) AND has({hours:Array(DateTime('UTC'))}, hour)
) AS held
INNER JOIN asked ON held.tenant = asked.asked_tenant AND held.hour = asked.asked_hour
WHERE (any_project = 1 OR project = asked_project) AND asked_currency IN ('', currency)
GROUP BY question, charge_period_start, charge_period_end, device_units, contracted_unit_price
ORDER BY question, charge_period_start, charge_period_end, device_units, contracted_unit_price
