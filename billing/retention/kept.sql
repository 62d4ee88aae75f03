-- What stays of a day's samples: signs of life, from which later hours are computed. The last sample of each stream, and
-- all of workloads whose end was estimated from them.
-- Params:  day.
INSERT INTO {kept:Identifier}
SELECT *
FROM samples
WHERE toYYYYMMDD(ts) = toYYYYMMDD({day:DateTime64(3, 'UTC')})
    AND
    (
        (stream, ts) GLOBAL IN
        (
            SELECT stream, max(ts) FROM samples WHERE toYYYYMMDD(ts) = toYYYYMMDD({day:DateTime64(3, 'UTC')}) GROUP BY stream
        )
        OR (cluster, device_id, workload_id) GLOBAL IN (SELECT cluster, device_id, workload_id FROM allocations WHERE estimated != '')
    )
