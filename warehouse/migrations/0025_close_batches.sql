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
