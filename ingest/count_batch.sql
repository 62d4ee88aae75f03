-- One row: how many natural keys a batch has, and how far the rows that the store has already overlap with it.
-- keys: distinct natural keys in the batch.   nearby: rows of other batches that the store has, from the batch's first
-- instant to its last, for the same devices (allocations, services).   earliest, latest: their first and last instant.
-- Rows that an earlier, cut-short write of this same batch left behind do not count.
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
    AND $subject IN (SELECT $subject FROM $staged)
