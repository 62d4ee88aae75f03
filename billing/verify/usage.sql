-- One row: an issued invoice whose usage is not what the ledger says of its month, though no hour of it was closed again
-- since; in the order of their numbers. What is closed again later is the business of corrections.
-- Units:   GPU-hours; a document has nine digits of them, so that less than their last is no difference.
-- Params:  most = rows.
WITH
    documents AS
    (
        SELECT number, tenant, period_start, period_end, toUInt64OrZero(JSONExtractString(document, 'books_run')) AS books_run,
            JSONExtractArrayRaw(document, 'lines') AS document_lines
        FROM invoices
        WHERE JSONExtractString(document, 'document_type') != 'credit_note'
    ),
    as_they_were AS
    (
        SELECT documents.number AS number
        FROM documents
        CROSS JOIN (SELECT hour, argMax(run, checked_by) AS run FROM closed_hours GROUP BY hour) AS hours
        WHERE hours.hour > period_start - INTERVAL 1 HOUR AND hours.hour < period_end
        GROUP BY number, books_run
        HAVING max(hours.run) = books_run
    ),
    billed AS
    (
        SELECT number,
            sum(toFloat64OrZero(JSONExtractString(line, 'used_gpu_hours'))) AS used,
            sum(toFloat64OrZero(JSONExtractString(line, 'allocated_gpu_hours'))) AS allocated,
            sum(toFloat64OrZero(JSONExtractString(line, 'list_cost'))) AS list_cost,
            sum(toFloat64OrZero(JSONExtractString(line, 'billed_cost'))) AS billed_cost,
            count() AS lines
        FROM documents
        ARRAY JOIN document_lines AS line
        WHERE JSONExtractString(line, 'kind') = 'usage' AND JSONExtractString(line, 'charge_class') != 'Correction'
        GROUP BY number
    ),
    held AS
    (
        SELECT number,
            sum(toFloat64(used_unit_ms) / device_units / 3600000) AS used,
            sum(toFloat64(used_unit_ms + idle_unit_ms + unmetered_unit_ms) / device_units / 3600000) AS allocated,
            sum(toFloat64(used_unit_ms + idle_unit_ms + unmetered_unit_ms) / device_units / 3600000 * toFloat64(ifNull(list_unit_price, 0))) AS list_cost,
            sum(toFloat64(used_unit_ms + idle_unit_ms + unmetered_unit_ms) / device_units / 3600000 * toFloat64(ifNull(contracted_unit_price, 0))) AS billed_cost
        FROM ledger
        INNER JOIN documents ON ledger.tenant = documents.tenant
        WHERE allocation_id != '' AND charge_period_start >= period_start AND charge_period_start < period_end
        GROUP BY number
    )
SELECT as_they_were.number AS of_number,
    multiIf(
        abs(billed.allocated - held.allocated) > slack, concat('it bills ', toString(round(billed.allocated, 9)), ' GPU-hours, the ledger has ', toString(round(held.allocated, 9))),
        abs(billed.used - held.used) > slack, concat('it says that ', toString(round(billed.used, 9)), ' GPU-hours were used, the ledger ', toString(round(held.used, 9))),
        abs(billed.list_cost - held.list_cost) > slack, concat('its usage comes to ', toString(round(billed.list_cost, 9)), ' at list price, the ledger''s to ', toString(round(held.list_cost, 9))),
        abs(billed.billed_cost - held.billed_cost) > slack, concat('its usage comes to ', toString(round(billed.billed_cost, 9)), ', the ledger''s to ', toString(round(held.billed_cost, 9))),
        '') AS reason,
    1e-9 * (1 + billed.lines) + 1e-12 * abs(held.list_cost) AS slack
FROM as_they_were
LEFT JOIN billed ON as_they_were.number = billed.number
LEFT JOIN held ON as_they_were.number = held.number
WHERE reason != ''
ORDER BY of_number
LIMIT {most:UInt32}
