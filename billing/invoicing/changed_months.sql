-- One row: an issued month that may owe something other than what was billed, because
--   - an hour that it is computed from was recomputed since (if the length of sessions matters, even with the same
--   entries);
--   - a short session ended in it and went on in a later month, or ended with it after all, or an earlier close had it hold
--   something later;
--   - a credit of it (such as a reversal) is on no invoice;
--   - a tenant that holds something in it, or has a commitment, or whose invoice of it is void, has no line for it on any
--   invoice.
-- A month that corrections were billed for counts as issued. Void invoices and credit notes do not count.
-- Params:  before = months that ended by then; timezone; reach_hours = how many hours before a month count too; by_length =
--          1 if a charge or discount depends on the length of sessions; committed, since, until = tenants with a commitment
--          and its months ('' = open); minimum_ms = the longest minimum of a session.
WITH
    billed AS
    (
        SELECT tenant, line.1 AS month, line.2 AS kind, line.3 AS rule
        FROM
        (
            SELECT
                tenant,
                JSONExtractString(document, 'period', 'month') AS own_month,
                arrayMap(
                    line -> (
                        if(JSONExtractString(line, 'charge_class') = 'Correction', JSONExtractString(line, 'reference', 'month'), own_month),
                        JSONExtractString(line, 'kind'),
                        JSONExtractString(line, 'rule')
                    ),
                    JSONExtractArrayRaw(document, 'lines')
                ) AS document_lines
            FROM invoices FINAL
            WHERE number NOT IN (SELECT number FROM voided_invoices)
                AND JSONExtractString(document, 'document_type') != 'credit_note'
        )
        ARRAY JOIN arrayPushFront(document_lines, (own_month, '', '')) AS line
    ),
    (
        SELECT groupArray((month, start, end, first_run, as_of_run))
        FROM
        (
            SELECT
                JSONExtractString(document, 'period', 'month') AS month, min(period_start) AS start, max(period_end) AS end,
                min(toUInt64OrZero(JSONExtractString(document, 'books_run'))) AS first_run,
                min(toUInt64OrZero(JSONExtractString(document, 'as_of_run'))) AS as_of_run
            FROM invoices FINAL
            WHERE period_end <= {before:DateTime64(3, 'UTC')} AND month IN (SELECT month FROM billed)
            GROUP BY month
        )
    ) AS months,
    issued AS (SELECT one.1 AS month, one.2 AS start, one.3 AS end, one.4 AS first_run, one.5 AS as_of_run FROM (SELECT arrayJoin(months) AS one)),
    sessions AS
    (
        SELECT
            cluster,
            allocation_id,
            groupArray((start_at, ifNull(end_at, toDateTime64('2299-01-01 00:00:00', 3, 'UTC')))) AS stretches,
            arrayMin(stretches.1) AS begins,
            arrayMax(stretches.2) AS ends,
            dateDiff('millisecond', begins, ends) AS length_ms
        FROM allocations
        WHERE (cluster, allocation_id) IN
        (
            SELECT cluster, allocation_id
            FROM allocations
            WHERE dateDiff('millisecond', start_at, end_at) < {minimum_ms:Int64}
        )
        GROUP BY cluster, allocation_id
    ),
    shortened AS
    (
        SELECT sessions.ends AS ends
        FROM sessions
        INNER JOIN
        (
            SELECT cluster, allocation_id, max(charge_period_end) AS held_until
            FROM ledger_entries
            WHERE (hour, run) NOT IN (SELECT hour, argMax(run, checked_by) FROM closed_hours GROUP BY hour)
                AND hour >= toDateTime(arrayMin(months.3), 'UTC') - INTERVAL 1 HOUR
                AND (cluster, allocation_id) IN (SELECT cluster, allocation_id FROM sessions WHERE length_ms < {minimum_ms:Int64})
            GROUP BY cluster, allocation_id
        ) AS before ON sessions.cluster = before.cluster AND sessions.allocation_id = before.allocation_id
        WHERE before.held_until > sessions.ends
    ),
    found AS
    (
        SELECT issued.month AS month
        FROM issued
        CROSS JOIN shortened
        WHERE shortened.ends > issued.start AND shortened.ends <= issued.end
        UNION ALL
        SELECT issued.month AS month
        FROM issued
        CROSS JOIN (SELECT hour, argMax(run, checked_by) AS run, max(checked_by) AS looked_at_by FROM closed_hours GROUP BY hour) AS hours
        WHERE (hours.run > issued.first_run OR ({by_length:UInt8} = 1 AND hours.looked_at_by > issued.as_of_run))
            AND hours.hour > issued.start - toIntervalHour({reach_hours:UInt32} + 1) AND hours.hour < issued.end
        UNION ALL
        SELECT issued.month AS month
        FROM issued
        CROSS JOIN sessions
        WHERE (ends = issued.end AND length_ms < {minimum_ms:Int64})
            OR
            (
                begins < issued.end AND ends > issued.end
                AND NOT arrayExists(stretch -> stretch.1 < issued.end AND stretch.2 > issued.end, stretches)
                AND arrayExists(stretch -> stretch.2 > issued.start AND stretch.2 <= issued.end
                    AND dateDiff('millisecond', begins, stretch.2) < {minimum_ms:Int64}, stretches)
            )
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
                    AND hour >= toDateTime(arrayMin(months.2), 'UTC') - INTERVAL 1 HOUR
                    AND hour < toDateTime({before:DateTime64(3, 'UTC')}, 'UTC') + INTERVAL 1 HOUR
            )
            UNION ALL
            SELECT promise.1 AS tenant, issued.month AS month
            FROM issued
            ARRAY JOIN arrayZip({committed:Array(String)}, {since:Array(String)}, {until:Array(String)}) AS promise
            WHERE issued.month >= promise.2 AND (promise.3 = '' OR issued.month < promise.3)
            UNION ALL
            SELECT tenant, JSONExtractString(document, 'period', 'month') AS month
            FROM invoices FINAL
            WHERE number IN (SELECT number FROM voided_invoices) AND JSONExtractString(document, 'document_type') != 'credit_note'
        )
        WHERE (tenant, month) NOT IN (SELECT tenant, month FROM billed)
    )
SELECT start, end
FROM issued
WHERE month IN (SELECT month FROM found)
ORDER BY start
