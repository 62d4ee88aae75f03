-- Writes the good rows of a batch in which a key occurs more than once. Of equal rows one stays, of different ones each:
-- the table would keep the last of those that differ in a column outside its sorting key (an event's priority, a sample's
-- power), so that the order of a file, or of pushes written together, decided.
-- $$table, $$columns, $$key (columns), $$staged (the batch).
-- Parameters: batch UInt64, otherwise UInt64: the batch, if others may have reported the same keys differently; else 0.
INSERT INTO $table ($columns, batch, told_otherwise)
SELECT
    $columns,
    {batch:UInt64},
    if(
        cityHash64(tuple($key)) IN (SELECT cityHash64(tuple($key)) FROM $staged GROUP BY ALL HAVING count() > 1),
        cityHash64({batch:UInt64}, toString(tuple($columns))),
        {otherwise:UInt64}
    )
FROM $staged
