-- One row: an allocation that an unread event may change at a time before the horizon: the event is about such a time; it lets
-- a claim count that was refused because its only end was older than its start; or it may be the end that was lost when the
-- next holder came.
-- Params:  lost: what the books say of such an end (billing.close.resolve).
--          fresh: batches that no close has read; rows of batch 0 belong to no batch and always count as new.
CREATE TABLE {late:Identifier} ENGINE = Memory AS
SELECT DISTINCT allocation_hash AS allocation
FROM events
WHERE (batch = 0 OR batch IN (SELECT batch FROM {fresh:Identifier}))
    AND (ts < fromUnixTimestamp64Milli({horizon_ms:Int64}, 'UTC')
        OR allocation_hash IN (SELECT cityHash64(toString(cluster), allocation_id) FROM refused_claims WHERE reason = 'ends_before_it_starts')
        OR allocation_hash IN (SELECT allocation_hash FROM allocations WHERE estimated = {lost:String}))
