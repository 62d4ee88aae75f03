-- One row: a row of a batch that the store has already, equal in every column; the column `place` is its index.
-- $$table, $$subject (second column of the key), $$stored (columns as text), $$given (the batch's, in the table's types),
-- $$staged (the batch).
-- Parameters: first_at, last_at DateTime64(3); acknowledged Bool: only rows of complete batches; doubts Bool, sender:
--             ignore what other senders pushed since the last close, or up to an hour before it.
SELECT place
FROM (SELECT place, cityHash64([$given]) AS hash FROM $staged)
WHERE hash IN
(
    SELECT cityHash64([$stored]) AS hash
    FROM $table
    WHERE ts >= {first_at:DateTime64(3, 'UTC')} AND ts <= {last_at:DateTime64(3, 'UTC')}
        AND $subject GLOBAL IN (SELECT $subject FROM $staged)
        AND (NOT {acknowledged:Bool} OR batch GLOBAL IN
        (
            SELECT batch
            FROM ingest_batches
            WHERE NOT ({doubts:Bool} AND startsWith(source, 'push:') AND sender != {sender:String}
                AND ingested_at > (SELECT max(ingest_cutoff) FROM close_runs) - INTERVAL 1 HOUR)
        ))
)
