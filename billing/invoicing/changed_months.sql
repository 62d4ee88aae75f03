-- One row: a month that was issued and may owe something else than was billed: an hour that it is computed from was
-- computed again since, a credit of it (such as one taken back) stands on no invoice, or somebody who holds something in
-- it, or is committed, has no line for it on any invoice. A month that corrections were billed for counts as issued. Void
-- invoices and credit notes do not count.
-- Params:  before = months that ended by then; timezone; reach_hours = how many hours before a month count too;
--          committed, since, until = tenants with a commitment and its months ('' = open).
WITH
    documents AS
    (
        SELECT
            tenant, period_start, period_end,
            JSONExtractString(document, 'period', 'month') AS month,
            toUInt64OrZero(JSONExtractString(document, 'books_run')) AS books_run,
            JSONExtractArrayRaw(document, 'lines') AS document_lines
        FROM invoices FINAL
        WHERE number NOT IN (SELECT number FROM voided_invoices)
            AND JSONExtractString(document, 'document_type') != 'credit_note'
    ),
    billed AS
    (
        SELECT
            tenant,
            if(JSONExtractString(line, 'charge_class') = 'Correction', JSONExtractString(line, 'reference', 'month'), documents.month) AS month,
            JSONExtractString(line, 'kind') AS kind,
            JSONExtractString(line, 'rule') AS rule
        FROM documents
        ARRAY JOIN document_lines AS line
    ),
    issued AS
    (
        SELECT
            JSONExtractString(document, 'period', 'month') AS month, min(period_start) AS start, max(period_end) AS end,
            min(toUInt64OrZero(JSONExtractString(document, 'books_run'))) AS first_run
        FROM invoices FINAL
        WHERE period_end <= {before:DateTime64(3, 'UTC')}
            AND (month IN (SELECT month FROM documents) OR month IN (SELECT month FROM billed))
        GROUP BY month
    ),
    found AS
    (
        SELECT issued.month AS month
        FROM issued
        CROSS JOIN (SELECT hour, argMax(run, checked_by) AS run FROM closed_hours GROUP BY hour) AS hours
        WHERE hours.run > issued.first_run
            AND hours.hour > issued.start - toIntervalHour({reach_hours:UInt32} + 1) AND hours.hour < issued.end
        UNION ALL
        SELECT month
        FROM credits FINAL
        WHERE (tenant, concat('credit:', id)) NOT IN (SELECT tenant, rule FROM billed WHERE kind = 'credit')
        UNION ALL
        SELECT month
        FROM
        (
            SELECT tenant, formatDateTime(first_day, '%Y-%m') AS month
            FROM
            (
                SELECT DISTINCT tenant, toStartOfMonth(charge_period_start, {timezone:String}) AS first_day
                FROM ledger
                WHERE allocation_id != '' AND tenant != ''
                    AND hour >= toDateTime((SELECT min(start) FROM issued), 'UTC') - INTERVAL 1 HOUR
                    AND hour < toDateTime({before:DateTime64(3, 'UTC')}, 'UTC') + INTERVAL 1 HOUR
            )
            UNION ALL
            SELECT promise.1 AS tenant, issued.month AS month
            FROM issued
            ARRAY JOIN arrayZip({committed:Array(String)}, {since:Array(String)}, {until:Array(String)}) AS promise
            WHERE issued.month >= promise.2 AND (promise.3 = '' OR issued.month < promise.3)
        )
        WHERE (tenant, month) NOT IN (SELECT tenant, month FROM billed) AND (tenant, month) NOT IN (SELECT tenant, month FROM documents)
    )
SELECT start, end
FROM issued
WHERE month IN (SELECT month FROM found)
ORDER BY start
