-- One row: a row of a chained table that does not fit, in their order; position 0 without a name: the chain's own ends.
-- $$table, $$name (a column), $$content (an expression).   Params: chain = the table's name.
WITH
    kept AS
    (
        SELECT position, previous, digest, toString($name) AS name,
            lower(hex(SHA256(concat(previous, '\n', $content)))) AS own
        FROM $table
    ),
    heads AS (SELECT is_beginning, position, digest FROM chain_heads WHERE chain = {chain:String}),
    assumeNotNull((SELECT lower(hex(SHA256(arrayStringConcat(arraySort(groupArray(digest)), '\n')))) FROM kept WHERE position = 0)) AS beginning,
    walked AS
    (
        SELECT position, name, own, previous, digest,
            lagInFrame(position, 1, toUInt64(0)) OVER in_order AS position_before,
            lagInFrame(digest, 1, beginning) OVER in_order AS digest_before
        FROM kept
        WHERE position > 0
        WINDOW in_order AS (ORDER BY position ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
    )
SELECT position, name, reason
FROM
(
    SELECT position, name,
        multiIf(
            position = position_before, 'it stands there twice',
            position != position_before + 1, 'what stood before it is missing',
            digest != own, 'it is not what was written: its digest does not fit',
            previous != digest_before, 'it does not follow what stands before it',
            '') AS reason
    FROM walked
    UNION ALL
    SELECT position, name, 'it is not what was written: its digest does not fit' AS reason
    FROM kept
    WHERE position = 0 AND digest != own
    UNION ALL
    SELECT position, '' AS name,
        multiIf(
            count() > 1, 'its last row is named twice',
            is_beginning AND (position != 0 OR any(digest) != beginning), 'it does not begin as it did',
            NOT is_beginning AND position = 0 AND any(digest) != beginning, 'it does not begin as it did',
            NOT is_beginning AND position > 0 AND (position, any(digest)) NOT IN (SELECT position, digest FROM walked), 'its last row is missing',
            '') AS reason
    FROM heads
    GROUP BY is_beginning, position
    UNION ALL
    SELECT 0 AS position, '' AS name, 'nothing says how it begins and ends' AS reason
    FROM (SELECT uniqExact(is_beginning) AS known FROM heads)
    WHERE known < 2
)
WHERE reason != ''
ORDER BY position, name
LIMIT 100
