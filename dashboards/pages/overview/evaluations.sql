-- One row: how often alert rules were evaluated, as far as the reader may know.
SELECT count() AS evaluations FROM alert_runs
