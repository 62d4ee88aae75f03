-- One row: an allocation of whose time before the horizon an event tells that no close has read.
-- Params:  fresh: batches that no close has read; rows of batch 0 come of none, and count as new always.
CREATE TABLE {late:Identifier} ENGINE = Memory AS
SELECT DISTINCT allocation_hash AS allocation
FROM events
WHERE ts < fromUnixTimestamp64Milli({horizon_ms:Int64}, 'UTC') AND (batch = 0 OR batch IN (SELECT batch FROM {fresh:Identifier}))
