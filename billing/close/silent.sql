-- One row: an open claim without a recent sample of its own.
-- Units:   {silence_ms:Int64} defines recent: how long before the newest sample of all.
-- Reads:   only the newest days: a claim with a recent sample of its own is alive and not examined further. The newest
--          sample may be one that the close does not read: then fewer are alive, and more are examined.
CREATE TABLE {silent:Identifier} ENGINE = Memory AS
WITH
    (SELECT max(ts) FROM samples) AS newest
SELECT claim, cluster, device_id, workload_id, start_ms
FROM {settled:Identifier}
WHERE end_ms >= {forever:Int64}
    AND (cluster, device_id, workload_id) NOT IN
    (
        SELECT cluster, device_id, workload_id
        FROM samples
        WHERE ts > newest - toIntervalMillisecond({silence_ms:Int64}) AND batch GLOBAL IN {batches:Identifier}
            AND workload_id GLOBAL IN (SELECT workload_id FROM {settled:Identifier} WHERE end_ms >= {forever:Int64})
        GROUP BY cluster, device_id, workload_id
    )
