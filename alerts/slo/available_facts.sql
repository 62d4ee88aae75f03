-- One row: which facts the store has: the newest time of arrival of a batch, and the newest hours closed.
-- Shape:   since: the oldest event or service level; closed_until: end of the last closed hour; null if there is none.
SELECT
    (SELECT max(ingested_at) FROM ingest_batches WHERE record_type IN ('events', 'service_levels', 'devices')) AS facts_until,
    (SELECT least(events.1, levels.1) FROM
        (SELECT tuple(ifNull(minOrNull(ts), toDateTime64('2200-01-01', 3, 'UTC'))) AS events FROM events) AS e,
        (SELECT tuple(ifNull(minOrNull(ts - toIntervalMillisecond(toInt64(interval_seconds * 1000))), toDateTime64('2200-01-01', 3, 'UTC'))) AS levels FROM service_levels) AS l) AS since,
    (SELECT max(run) FROM closed_hours) AS books_run,
    (SELECT toDateTime64(maxOrNull(hour), 3, 'UTC') + INTERVAL 1 HOUR FROM closed_hours) AS closed_until
