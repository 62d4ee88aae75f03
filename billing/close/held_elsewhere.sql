-- One row: an allocation that holds something now or recently did, of those given.
-- Params:  allocations: of which to tell.   horizon_ms: what ended before it is over.   given_up: claims that do not count.
SELECT DISTINCT toString(cluster) AS cluster, allocation_id
FROM {claims:Identifier}
WHERE end_ms > {horizon_ms:Int64} AND NOT ends_before_it_starts AND allocation_id IN {allocations:Array(String)}
    AND claim NOT IN {given_up:Array(UInt64)}
