-- One row: which facts the store has, see alerts/slo/available_facts.sql. since: the oldest sample or service level.
SELECT
    (SELECT max(ingested_at) FROM ingest_batches) AS facts_until,
    (SELECT max(run) FROM closed_hours) AS books_run,
    least(
        ifNull((SELECT minOrNull(ts) FROM samples), toDateTime64('2200-01-01', 3, 'UTC')),
        ifNull((SELECT minOrNull(ts) FROM service_levels), toDateTime64('2200-01-01', 3, 'UTC'))) - INTERVAL 1 HOUR AS since
