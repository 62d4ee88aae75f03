-- One row: the oldest moment that facts speak of which came since then, and of hours that were closed; 2200: none.
-- Params:  facts_until, books_run: what had been seen; at: facts after it are not looked at.
WITH
    batches AS (SELECT batch FROM ingest_batches WHERE ingested_at > {facts_until:DateTime64(3, 'UTC')}),
    toDateTime64('2200-01-01', 3, 'UTC') AS never
SELECT
    least(
        ifNull((SELECT minOrNull(ts) FROM samples WHERE batch IN batches), never),
        ifNull((SELECT minOrNull(ts) FROM metrics WHERE batch IN batches), never),
        ifNull((SELECT minOrNull(ts - toIntervalMillisecond(toInt64(interval_seconds * 1000))) FROM service_levels WHERE batch IN batches), never))
        AS facts_since,
    ifNull((SELECT toDateTime64(minOrNull(hour), 3, 'UTC') FROM closed_hours WHERE run > {books_run:UInt64}), never) AS books_since
