-- Records the beginnings or the last rows of chains.
-- Parameters: chains, digests Array(String); positions Array(UInt64); beginnings Array(UInt8): an element for each head.
INSERT INTO chain_heads (chain, is_beginning, position, digest)
SELECT head.1, head.2, head.3, head.4
FROM
(
    SELECT arrayJoin(arrayZip(
        {chains:Array(String)}, {beginnings:Array(UInt8)}, {positions:Array(UInt64)}, {digests:Array(String)})) AS head
)
