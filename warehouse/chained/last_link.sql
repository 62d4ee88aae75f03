-- One row: the last position of a chain and its digest; 0 and the digest of the beginning if the chain is empty.
-- $$table.   Parameters: chain String, its name.
SELECT
    max(position) AS position,
    if(position > 0, argMax(digest, $table.position),
        (SELECT if(count() > 0, any(digest), lower(hex(SHA256('')))) FROM chain_heads WHERE chain = {chain:String} AND is_beginning)) AS digest
FROM $table
