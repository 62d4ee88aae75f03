SELECT month, kind, sum(amount) AS amount, any(currency) AS currency
FROM v_invoice_lines
WHERE status = 'issued'
GROUP BY month, kind
ORDER BY month, amount DESC
