-- One row: a device whose past may be changed by a new fact: here, an unread device row of its own.
-- Params:  fresh: batches that no close has read; rows of batch 0 belong to no batch and always count as new.
CREATE TABLE {reached:Identifier} ENGINE = Memory AS
SELECT DISTINCT toString(cluster) AS cluster, toString(device_id) AS device_id
FROM devices
WHERE batch = 0 OR batch IN (SELECT batch FROM {fresh:Identifier})
