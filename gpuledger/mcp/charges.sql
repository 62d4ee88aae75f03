-- One row: the GPU-hours and cost by some columns, at the contracted price and before what invoices add (NULL: nothing has a
-- price). Summed before it is divided, so that nothing is rounded twice.
-- $$columns: columns, or expressions AS columns; $$by: their names; $$order; $$where: a condition.
SELECT
    $by,
    roundBankers(sum(hours), 9) AS gpu_hours,
    roundBankers(sum(hours * contracted_unit_price), 9) AS billed_cost,
    max(billing_currency) AS currency
FROM
(
    SELECT
        $columns,
        contracted_unit_price,
        billing_currency,
        toDecimal256(sum(used_unit_ms + idle_unit_ms + unmetered_unit_ms), 24) / (3600000 * device_units) AS hours
    FROM ledger
    WHERE allocation_id != '' AND $where
    GROUP BY $by, contracted_unit_price, billing_currency, device_units
)
GROUP BY $by
ORDER BY $order
