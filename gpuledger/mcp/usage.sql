-- One row: the GPU-hours of a period by some columns, and what their idle part cost at the contracted price (NULL: nothing idle
-- has a price), the most idle first. Summed before it is divided, so that nothing is rounded twice.
-- $$by: columns; $$where: a condition.
SELECT
    $by,
    roundBankers(sum(allocated), 9) AS allocated_gpu_hours,
    roundBankers(sum(used), 9) AS used_gpu_hours,
    roundBankers(sum(idle), 9) AS idle_gpu_hours,
    roundBankers(sum(unmetered), 9) AS unmetered_gpu_hours,
    roundBankers(sum(idle * contracted_unit_price), 9) AS idle_cost
FROM
(
    SELECT
        $by,
        contracted_unit_price,
        toDecimal256(sum(used_unit_ms + idle_unit_ms + unmetered_unit_ms), 24) / (3600000 * device_units) AS allocated,
        toDecimal256(sum(used_unit_ms), 24) / (3600000 * device_units) AS used,
        toDecimal256(sum(idle_unit_ms), 24) / (3600000 * device_units) AS idle,
        toDecimal256(sum(unmetered_unit_ms), 24) / (3600000 * device_units) AS unmetered
    FROM ledger
    WHERE allocation_id != '' AND $where
    GROUP BY $by, contracted_unit_price, device_units
)
GROUP BY $by
ORDER BY idle_gpu_hours DESC
