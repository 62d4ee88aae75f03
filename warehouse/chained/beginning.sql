-- One row: the beginning of a chain: the digest of the digests of all rows from before it, in order, one a line.   $$table.
SELECT lower(hex(SHA256(arrayStringConcat(arraySort(groupArray(digest)), '\n')))) AS digest
FROM $table
WHERE position = 0
