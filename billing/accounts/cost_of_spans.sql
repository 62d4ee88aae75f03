-- One row: what a span's tenant (or one project of it) held within it at one price, on devices with one number of
-- units: of entries of which the span covers part_ms of each whole_ms (1 of 1: all of it).
-- Units:   held_micro_ms: millionths of a unit-millisecond, of the whole entries; price per GPU-hour, NULL = unknown.
-- Params:  tenants, projects, any_project (1: all the tenant's), currencies ('': any), starts, ends: arrays, an element
--          for each span.
WITH
    asked AS
    (
        SELECT
            tupleElement(one, 1) AS span,
            tupleElement(one, 2) AS span_tenant,
            tupleElement(one, 3) AS span_project,
            tupleElement(one, 4) AS any_project,
            tupleElement(one, 5) AS span_start,
            tupleElement(one, 6) AS span_end,
            tupleElement(one, 7) AS span_currency
        FROM
        (
            SELECT arrayJoin(arrayZip(
                range(length({tenants:Array(String)})), {tenants:Array(String)}, {projects:Array(String)},
                {any_project:Array(UInt8)}, {starts:Array(DateTime64(3, 'UTC'))}, {ends:Array(DateTime64(3, 'UTC'))},
                {currencies:Array(String)}
            )) AS one
        )
    ),
    entries AS
    (
        SELECT
            toString(tenant) AS tenant, toString(project) AS project, charge_period_start, charge_period_end,
            device_units, contracted_unit_price, billing_currency,
            toInt256(sum(used_unit_ms + idle_unit_ms) * 1000000) + toInt256(sum(unmetered_unit_ms)) * 1000000 AS held
        FROM ledger
        WHERE has({tenants:Array(String)}, tenant)
            AND hour >= toDateTime(arrayMin({starts:Array(DateTime64(3, 'UTC'))}), 'UTC') - INTERVAL 1 HOUR
            AND hour < toDateTime(arrayMax({ends:Array(DateTime64(3, 'UTC'))}), 'UTC') + INTERVAL 1 HOUR
        GROUP BY
            tenant, project, charge_period_start, charge_period_end, device_units, contracted_unit_price,
            billing_currency
    )
SELECT
    span,
    device_units,
    contracted_unit_price,
    billing_currency,
    if(covered_ms = entry_ms, 1, covered_ms) AS part_ms,
    if(covered_ms = entry_ms, 1, entry_ms) AS whole_ms,
    sum(held) AS held_micro_ms
FROM
(
    SELECT
        *,
        dateDiff('millisecond', charge_period_start, charge_period_end) AS entry_ms,
        dateDiff('millisecond', greatest(charge_period_start, span_start), least(charge_period_end, span_end)) AS covered_ms
    FROM entries
    INNER JOIN asked ON entries.tenant = asked.span_tenant
    WHERE (any_project = 1 OR project = span_project)
        AND (contracted_unit_price IS NULL OR span_currency IN ('', billing_currency))
        AND charge_period_start < span_end AND charge_period_end > span_start
)
GROUP BY span, device_units, contracted_unit_price, billing_currency, part_ms, whole_ms
ORDER BY span, device_units, contracted_unit_price, part_ms, whole_ms
