-- One row: the earliest time that a fact reports which no close has read; null: all are read.
WITH
    unread AS
    (
        SELECT batch FROM ingest_batches WHERE batch NOT IN (SELECT arrayJoin(batches) FROM close_batches)
    )
SELECT min(first) AS first
FROM
(
    SELECT toDateTime64(minOrNull(hour), 3, 'UTC') AS first FROM touched_hours WHERE batch GLOBAL IN (SELECT batch FROM unread)
    UNION ALL
    SELECT minOrNull(ts) AS first FROM events WHERE batch IN (SELECT batch FROM unread)
    UNION ALL
    SELECT minOrNull(ts) AS first FROM devices WHERE batch IN (SELECT batch FROM unread)
)
