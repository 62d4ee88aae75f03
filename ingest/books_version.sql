-- One row: values that change when an invoice is issued or voided, and with each close.
SELECT
    (SELECT count() FROM invoices) AS invoices,
    (SELECT count() FROM voided_invoices) AS voided,
    max(run) AS run,
    max(closed_until) AS closed_until,
    argMax(ingest_cutoff, close_runs.run) AS cutoff
FROM close_runs
