-- What was told of the same thing in other words is kept beside what was told before, whichever column differs.
--
-- Rows with the same sorting key are merged into one, at the engine's leisure, and it keeps the last. That key has not
-- all columns (an event's priority is not in it, nor a sample's power): the books would become others by a merge, and a
-- row that a close has read would be gone. Rows of before, and what is new, stay as small as they were: 0.
ALTER TABLE samples
    ADD COLUMN IF NOT EXISTS told_otherwise UInt64 CODEC(ZSTD(1)) COMMENT 'the batch, where its rows may have keys of rows told before; else 0',
    MODIFY ORDER BY (cluster, device_id, partition_id, workload_id, ts, state, utilization, interval_seconds, told_otherwise);

ALTER TABLE events
    ADD COLUMN IF NOT EXISTS told_otherwise UInt64 CODEC(ZSTD(1)) COMMENT 'as of samples',
    MODIFY ORDER BY (cluster, allocation_id, event, ts, device_id, partition_id, tenant, project, queue, workload_id, node, units, gpus, told_otherwise);

ALTER TABLE devices
    ADD COLUMN IF NOT EXISTS told_otherwise UInt64 CODEC(ZSTD(1)) COMMENT 'as of samples',
    MODIFY ORDER BY (cluster, device_id, ts, state, units, model, pool, node, told_otherwise);
