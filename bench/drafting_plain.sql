-- One row: a sum of the invoices, as a plain query: what nobody would dare to send.
SELECT tenant, project, sku, contracted_unit_price, sum(used_unit_ms + idle_unit_ms) AS held_unit_ms
FROM ledger
GROUP BY tenant, project, sku, contracted_unit_price
