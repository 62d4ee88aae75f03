-- One row: the evaluation that was written last; none before the first.
SELECT run, evaluated_until, rules FROM alert_runs ORDER BY run DESC LIMIT 1
