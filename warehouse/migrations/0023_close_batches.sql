-- Which facts a close read: by their batches, because a clock cannot say it while batches are being written.

-- One row: a close, and the batches that it was the first to read. It read those, and what the close that it follows
-- read; what was not acknowledged when it began, it did not read.
CREATE TABLE IF NOT EXISTS close_batches
(
    run     UInt64,
    follows UInt64 COMMENT 'the run whose batches it read too; 0: none',
    batches Array(UInt64) CODEC(ZSTD(1))
)
ENGINE = MergeTree
ORDER BY run
COMMENT 'Which batches each close read first.';

-- What agents inserted by themselves was counted without being acknowledged, and what a killed ingest left, too: it counts
-- as before. Without a record type, a batch that is sent again is completed all the same.
INSERT INTO ingest_batches (batch, record_type, source)
SELECT DISTINCT batch, '', 'of before batches were named'
FROM
(
    SELECT batch FROM touched_hours
    UNION ALL
    SELECT batch FROM events
    UNION ALL
    SELECT batch FROM devices
)
WHERE batch != 0 AND batch NOT IN (SELECT batch FROM ingest_batches);
