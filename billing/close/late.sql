-- One row: an allocation with an unread event about a time before the horizon.
-- Params:  fresh: batches that no close has read; rows of batch 0 belong to no batch and always count as new.
CREATE TABLE {late:Identifier} ENGINE = Memory AS
SELECT DISTINCT allocation_hash AS allocation
FROM events
WHERE ts < fromUnixTimestamp64Milli({horizon_ms:Int64}, 'UTC') AND (batch = 0 OR batch IN (SELECT batch FROM {fresh:Identifier}))
