-- One row. news: a number that is another one as soon as hours were closed, prices applied or alerts evaluated; sums: as
-- soon as sums of days were made.
SELECT
    cityHash64(
        (SELECT max(checked_by) FROM closed_hours),
        (SELECT count() FROM closed_hours),
        (SELECT max(sequence) FROM rate_cards),
        (SELECT max(run) FROM alert_runs)) AS news,
    (SELECT cityHash64(max(written_at), count()) FROM summed_days) AS sums
