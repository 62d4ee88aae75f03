-- One row: the oldest time that newly arrived facts, or newly closed hours, are about; null: there are none.
-- Params:  facts_until, books_run: what was read before.
WITH batches AS
(
    SELECT batch FROM ingest_batches
    WHERE ingested_at > {facts_until:DateTime64(3, 'UTC')} AND record_type IN ('events', 'service_levels', 'devices')
)
SELECT
    least(
        ifNull((SELECT minOrNull(ts) FROM events WHERE batch IN batches), toDateTime64('2200-01-01', 3, 'UTC')),
        ifNull((SELECT minOrNull(ts - toIntervalMillisecond(toInt64(interval_seconds * 1000))) FROM service_levels WHERE batch IN batches), toDateTime64('2200-01-01', 3, 'UTC'))) AS facts_since,
    ifNull((SELECT toDateTime64(minOrNull(hour), 3, 'UTC') FROM closed_hours WHERE run > {books_run:UInt64}),
        toDateTime64('2200-01-01', 3, 'UTC')) AS books_since
