-- One row: a row of the file, and what is added up of it.
-- $$columns: those of its version, in its order; $$focus: focus.sql, with its params.
SELECT $columns, BilledCost AS billed, InvoiceId AS invoice, x_LineKind AS kind, ConsumedQuantity AS consumed
FROM
(
$focus
)
SETTINGS max_threads = 1, output_format_arrow_low_cardinality_as_dictionary = 1
