-- One row: the newest run, and what it had seen; none before the first.
SELECT run, until, facts_until, books_run, settings FROM interference_runs ORDER BY run DESC LIMIT 1
