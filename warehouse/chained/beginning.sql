-- One row: how a chain begins: the digest of the digests of the rows of before it, in order, a line each.   $$table.
SELECT lower(hex(SHA256(arrayStringConcat(arraySort(groupArray(digest)), '\n')))) AS digest
FROM $table
WHERE position = 0
