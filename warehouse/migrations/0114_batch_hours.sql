-- Of a batch of samples, the hours that it told of: a close that knows them need not look for it in touched_hours.

ALTER TABLE ingest_batches
    ADD COLUMN IF NOT EXISTS hours Array(DateTime('UTC'))
    COMMENT 'of samples: the hours in which they end, as in touched_hours; empty: not known';

ALTER TABLE touched_hours ADD INDEX IF NOT EXISTS by_hand batch TYPE minmax GRANULARITY 1;

ALTER TABLE touched_hours MATERIALIZE INDEX by_hand;

-- What was acknowledged in the last days, in the order of time: the close asks for that each hour.

CREATE TABLE IF NOT EXISTS recent_batches
(
    ingested_at DateTime64(3, 'UTC'),
    batch       UInt64,
    record_type LowCardinality(String),
    hours       Array(DateTime('UTC')) COMMENT 'as in ingest_batches',
    written_on  Date DEFAULT today()
)
ENGINE = MergeTree
ORDER BY ingested_at
TTL written_on + INTERVAL 7 DAY
COMMENT 'One row: a batch of the last seven days that was written completely, as in ingest_batches. Source: the view recent_batches_of_ingest, at ingest.';

-- What is there already stands in none of it: the next close reads everything.

ALTER TABLE close_carried DELETE WHERE true SETTINGS mutations_sync = 2;

CREATE MATERIALIZED VIEW IF NOT EXISTS recent_batches_of_ingest TO recent_batches AS
SELECT ingested_at, batch, record_type, hours
FROM ingest_batches;
