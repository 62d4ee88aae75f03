-- One row: how many natural keys of a batch the store has between two instants, from other batches or from any.
-- The tuple keeps a null in the key (as in a row without a quantile) from making the whole hash null.
-- $$table, $$key (columns), $$subject (second column of the key), $$staged (the batch).
-- Parameters: batch UInt64, own Bool (whether the batch's own rows count), first_at and last_at DateTime64(3).
SELECT uniqExact(hash) AS known
FROM
(
    SELECT cityHash64(tuple($key)) AS hash
    FROM $table
    WHERE ts >= {first_at:DateTime64(3, 'UTC')} AND ts <= {last_at:DateTime64(3, 'UTC')}
        AND ({own:Bool} OR batch != {batch:UInt64})
        AND $subject GLOBAL IN (SELECT $subject FROM $staged)
)
WHERE hash GLOBAL IN
(
    SELECT assumeNotNull(cityHash64(tuple($key)))
    FROM $staged
    WHERE ts >= {first_at:DateTime64(3, 'UTC')} AND ts <= {last_at:DateTime64(3, 'UTC')}
)
