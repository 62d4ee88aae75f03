-- One row: how many natural keys a batch has, and how far the rows that are in the store already overlap with it.
-- keys: distinct natural keys in the batch.   nearby: stored rows of other batches, from the batch's first instant to its
-- last, for the same devices (allocations, services).   earliest, latest: their first and last instant.
-- Rows left behind by an earlier, interrupted write of this same batch do not count.
-- $$table, $$key (columns), $$subject (second column of the key), $$staged (the batch).
-- Parameters: batch UInt64, first_at and last_at DateTime64(3).
SELECT
    (SELECT uniqExact(cityHash64(tuple($key))) FROM $staged) AS keys,
    count() AS nearby,
    min(ts) AS earliest,
    max(ts) AS latest
FROM $table
WHERE ts >= {first_at:DateTime64(3, 'UTC')} AND ts <= {last_at:DateTime64(3, 'UTC')}
    AND batch != {batch:UInt64}
    AND $subject GLOBAL IN (SELECT $subject FROM $staged)
