-- One row: values that change when an invoice is issued or voided, and with each close.
SELECT
    (SELECT count() FROM invoices) AS invoices,
    (SELECT count() FROM voided_invoices) AS voided,
    (SELECT max(run) FROM close_runs) AS run,
    (SELECT max(closed_until) FROM close_runs) AS closed_until,
    (SELECT argMax(ingest_cutoff, run) FROM close_runs) AS cutoff
