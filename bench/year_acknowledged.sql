-- Acknowledges what is not yet: a close reads no other batches. A batch of samples lies in one hour.
-- Params:  after: of facts since then; later_ms: how much later than the facts themselves they are said to have come.
INSERT INTO ingest_batches (batch, record_type, source, ingested_at, hours)
SELECT batch, record_type, 'bench', told + toIntervalMillisecond({later_ms:Int64}), hours
FROM
(
    SELECT batch, 'devices' AS record_type, max(ts) AS told, [] AS hours
    FROM devices
    WHERE ts > {after:DateTime64(3, 'UTC')}
    GROUP BY batch
    UNION ALL
    SELECT batch, 'events', max(ts), []
    FROM events
    WHERE ts > {after:DateTime64(3, 'UTC')}
    GROUP BY batch
    UNION ALL
    SELECT batch, 'samples', toDateTime64(hour, 3, 'UTC') + toIntervalMillisecond(max(first_ms)), [hour]
    FROM touched_hours
    WHERE hour >= {after:DateTime64(3, 'UTC')}
    GROUP BY hour, batch
)
