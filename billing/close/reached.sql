-- One row: a device of whose past a new fact may tell: here a row of its own, that no close has read.
-- Params:  fresh: batches that no close has read; rows of batch 0 come of none, and count as new always.
CREATE TABLE {reached:Identifier} ENGINE = Memory AS
SELECT DISTINCT toString(cluster) AS cluster, toString(device_id) AS device_id
FROM devices
WHERE batch = 0 OR batch IN (SELECT batch FROM {fresh:Identifier})
