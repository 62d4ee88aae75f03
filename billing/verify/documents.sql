-- One row: an issued document that does not add up (and is not void), or whose row says something else than its document;
-- in the order of their numbers.
-- Units:   money as on the document, whole minor units.
-- Params:  most = rows.
WITH
    documents AS
    (
        SELECT
            issuer, year, sequence, number, tenant, currency, total, document,
            row_number() OVER (PARTITION BY issuer, year ORDER BY sequence) AS place,
            toDecimal128OrZero(JSONExtractString(document, 'totals', 'net'), 9) AS net,
            toDecimal128OrZero(JSONExtractString(document, 'totals', 'tax'), 9) AS tax,
            toDecimal128OrZero(JSONExtractString(document, 'totals', 'amount'), 9) AS amount,
            toDecimal128OrZero(JSONExtractString(document, 'totals', 'prepaid'), 9) AS prepaid,
            toDecimal128OrZero(JSONExtractString(document, 'totals', 'due'), 9) AS due,
            arrayMap(line -> (JSONExtractString(line, 'kind'), toDecimal128OrZero(JSONExtractString(line, 'amount'), 9)),
                JSONExtractArrayRaw(document, 'lines')) AS lines,
            arraySum(arrayMap(line -> if(line.1 = 'tax', 0, line.2), lines)) AS lines_net,
            arraySum(arrayMap(line -> if(line.1 = 'tax', line.2, 0), lines)) AS lines_tax,
            arraySum(arrayMap(draw -> toDecimal128OrZero(JSONExtractString(draw, 'amount'), 9), JSONExtractArrayRaw(document, 'prepaid_draws'))) AS drawn,
            (number, toString(issuer), toString(tenant), toString(currency), period_start, period_end, issued_at) = (
                JSONExtractString(document, 'number'), JSONExtractString(document, 'issuer', 'name'),
                JSONExtractString(document, 'tenant'), JSONExtractString(document, 'currency'),
                parseDateTime64BestEffort(JSONExtractString(document, 'period', 'start'), 3, 'UTC'),
                parseDateTime64BestEffort(JSONExtractString(document, 'period', 'end'), 3, 'UTC'),
                parseDateTime64BestEffort(JSONExtractString(document, 'issued_at'), 3, 'UTC')) AS is_its_row
        FROM invoices
    )
SELECT number AS of_number, reason
FROM
(
    SELECT issuer, year, sequence, number,
        multiIf(
            sequence != place, concat('number ', toString(place), ' of ', toString(year), ' is missing before it'),
            NOT endsWith(number, concat('-', toString(year), '-', leftPad(toString(sequence), 5, '0'))), 'its number is not that of its place',
            NOT is_its_row, 'its row says something else than its document',
            total != amount, concat('its row says ', toString(total), ', its document ', toString(amount)),
            number IN (SELECT number FROM voided_invoices), '',  -- nothing is owed on it
            net != lines_net, concat('its lines come to ', toString(lines_net), ' net, its total says ', toString(net)),
            tax != lines_tax, concat('its taxes come to ', toString(lines_tax), ', its total says ', toString(tax)),
            amount != net + tax, concat('net and tax come to ', toString(net + tax), ', its total says ', toString(amount)),
            prepaid != drawn, concat('its draws come to ', toString(drawn), ', its total says ', toString(prepaid)),
            due != amount - prepaid, concat(toString(amount - prepaid), ' is due, its total says ', toString(due)),
            '') AS reason
    FROM documents
)
WHERE reason != ''
ORDER BY issuer, year, sequence
LIMIT {most:UInt32}
