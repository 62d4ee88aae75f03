-- One row: the oldest time that newly arrived facts, or newly closed hours, are about; 2200: there are none.
-- Params:  facts_until, books_run: what was read before; at: later facts are ignored.
WITH
    batches AS (SELECT batch FROM ingest_batches WHERE ingested_at > {facts_until:DateTime64(3, 'UTC')}),
    toDateTime64('2200-01-01', 3, 'UTC') AS never
SELECT
    least(
        ifNull((SELECT minOrNull(ts) FROM samples WHERE batch GLOBAL IN (SELECT batch FROM batches)), never),
        ifNull((SELECT minOrNull(ts) FROM metrics WHERE batch GLOBAL IN (SELECT batch FROM batches)), never),
        ifNull((SELECT minOrNull(ts - toIntervalMillisecond(toInt64(interval_seconds * 1000))) FROM service_levels WHERE batch IN batches), never))
        AS facts_since,
    ifNull((SELECT toDateTime64(minOrNull(hour), 3, 'UTC') FROM closed_hours WHERE run > {books_run:UInt64}), never) AS books_since
