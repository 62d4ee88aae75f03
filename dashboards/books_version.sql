-- One row: a number that is another one as soon as hours were closed, prices applied or alerts evaluated.
SELECT
    cityHash64(
        (SELECT max(checked_by) FROM closed_hours),
        (SELECT count() FROM closed_hours),
        (SELECT max(closed_until) FROM close_runs),
        (SELECT max(sequence) FROM rate_cards),
        (SELECT max(run) FROM alert_runs)) AS books
