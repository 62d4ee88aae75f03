-- One row: a claim that the last close published.   Units: ms since the epoch; forever: it has no end.
SELECT
    cluster, allocation_id,
    toUnixTimestamp64Milli(start_at) AS start_ms,
    ifNull(toUnixTimestamp64Milli(end_at), {forever:Int64}) AS end_ms
FROM allocations
