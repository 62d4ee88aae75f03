-- One row: what invoices have of a kind, project and SKU; lines that correct earlier months apart.
-- $$numbers: the invoices', literals.
SELECT
    month, number, if(charge_class = '', kind, 'correction') AS what, project, sku,
    sum(quantity) AS quantities, sum(amount) AS amounts, any(currency) AS currency
FROM v_invoice_lines
WHERE number IN ($numbers)
GROUP BY month, number, what, project, sku
ORDER BY month, number, what, project, sku
