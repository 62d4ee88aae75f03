-- One row: a row of a chained table that does not fit, by table and position; without a name: the chain's own ends.
-- Params:  chains = the tables.   $$links = rows of chain, position, previous, digest, name, own (computed anew).
SELECT chain, problem.1 AS position, problem.2 AS name, problem.3 AS reason
FROM
(
    SELECT
        asked.chain AS chain,
        arrayFilter(link -> link.1 = 0, sorted) AS old,
        arrayFilter(link -> link.1 > 0, sorted) AS chained,
        lower(hex(SHA256(arrayStringConcat(arraySort(arrayMap(link -> link.4, old)), '\n')))) AS beginning,
        arrayMap(link -> (link.1, link.4), chained) AS places,
        arrayPopBack(arrayPushFront(places, (toUInt64(0), beginning))) AS places_before,
        arrayConcat(
            arrayMap(link -> (link.1, link.2, if(link.4 != link.5, 'it is not what was written: its digest does not fit', '')), old),
            arrayMap((link, before) -> (link.1, link.2, multiIf(
                link.1 = before.1, 'it stands there twice',
                link.1 != before.1 + 1, 'what stood before it is missing',
                link.4 != link.5, 'it is not what was written: its digest does not fit',
                link.3 != before.2, 'it does not follow what stands before it',
                '')), chained, places_before),
            arrayMap(head -> (head.2, '', multiIf(
                countEqual(heads, head) > 1, 'its last row is named twice',
                head.2 = 0, if(head.3 != beginning, 'it does not begin as it did', ''),
                head.1, 'it does not begin as it did',
                NOT has(places, (head.2, head.3)), 'its last row is missing',
                '')), heads),
            if(arrayUniq(arrayMap(head -> head.1, heads)) < 2, [(toUInt64(0), '', 'nothing says how it begins and ends')], [])) AS checks
    FROM (SELECT arrayJoin({chains:Array(String)}) AS chain) AS asked
    LEFT JOIN
    (
        SELECT chain, arraySort(groupArray((position, name, previous, digest, own))) AS sorted
        FROM ($links)
        GROUP BY chain
    ) AS found ON asked.chain = found.chain
    LEFT JOIN
    (
        SELECT toString(chain_heads.chain) AS chain, groupArray((is_beginning, position, digest)) AS heads
        FROM chain_heads
        GROUP BY chain
    ) AS ends ON asked.chain = ends.chain
)
ARRAY JOIN arrayFilter(check -> check.3 != '', checks) AS problem
ORDER BY indexOf({chains:Array(String)}, chain), position, name
LIMIT 1000
