-- One row: the shortest and the longest interval of the samples that touch the hours of [first, last]; NULL: there are none.
-- Units:   ms.   Params:  first, last: hours since the epoch.
SELECT minOrNull(shortest_ms) AS shortest, maxOrNull(longest_ms) AS longest
FROM touched_hours
WHERE hour >= toDateTime({first:UInt32} * 3600, 'UTC') AND hour <= toDateTime({last:UInt32} * 3600, 'UTC')
    AND batch GLOBAL IN {batches:Identifier}
