-- One row: an entry of the ledger with its costs, the engine's own way to a CSV. $path is a checked path.
SELECT
    *,
    (used_unit_ms + idle_unit_ms + unmetered_unit_ms) / (device_units * 3600000) AS quantity,
    quantity * list_unit_price AS list_cost,
    quantity * contracted_unit_price AS contracted_cost
FROM ledger
INTO OUTFILE '$path'
FORMAT CSVWithNames
