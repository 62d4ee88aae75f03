-- One row: what an issued document has of a kind of line.
SELECT number, tenant, month, kind, sum(amount) AS amount, any(currency) AS currency
FROM v_invoice_lines
WHERE status = 'issued'
GROUP BY number, tenant, month, kind
ORDER BY number, amount DESC
