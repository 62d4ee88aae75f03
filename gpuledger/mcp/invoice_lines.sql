-- One row: a line of an invoice.   $$number: the invoice's, a literal.
SELECT line, kind, project, sku, quantity, unit, contracted_unit_price, amount, currency
FROM v_invoice_lines
WHERE number = $number
ORDER BY line
