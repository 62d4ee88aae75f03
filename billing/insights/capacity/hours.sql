-- One row: what a group of devices (those of one model in one pool of a cluster) had in an hour that a run closed. It holds for
-- good, as its entries do (entries.sql).
-- devices: that the books have of it, if only for a part of the hour.   allocated: held by the chosen tenants, projects and queues, held: by anybody, free:
-- by nobody, available: held or free, capacity: that or unavailable, in GPU-hours.   free_ms, available_ms: the same in GPU-milliseconds, exact for whole GPUs.
-- Params:  those of entries.sql; tenants, projects, queues Array(String), empty: all.
SELECT
    hour AS at, cluster, pool, model,
    uniqExact(device_id) AS devices,
    sumIf(gpu_hours, is_chosen) AS allocated,
    sum(gpu_hours) AS held,
    sum(l.unallocated_unit_ms / (l.device_units * 3600000)) AS free,
    sum(toFloat64(l.used_unit_ms + l.idle_unit_ms + l.unmetered_unit_ms + l.unallocated_unit_ms) / (l.device_units * 3600000)) AS available,
    sum(
        toFloat64(l.used_unit_ms + l.idle_unit_ms + l.unmetered_unit_ms + l.unallocated_unit_ms + l.unavailable_unit_ms)
        / (l.device_units * 3600000)
    ) AS capacity,
    sum(l.unallocated_unit_ms / l.device_units) AS free_ms,
    sum(toFloat64(l.used_unit_ms + l.idle_unit_ms + l.unmetered_unit_ms + l.unallocated_unit_ms) / l.device_units) AS available_ms
FROM
(
    SELECT
        *,
        toFloat64(used_unit_ms + idle_unit_ms + unmetered_unit_ms) / (device_units * 3600000) AS gpu_hours,
        allocation_id != ''
            AND (empty({tenants:Array(String)}) OR has({tenants:Array(String)}, tenant))
            AND (empty({projects:Array(String)}) OR has({projects:Array(String)}, project))
            AND (empty({queues:Array(String)}) OR has({queues:Array(String)}, queue)) AS is_chosen
    FROM ({entries})
) AS l
GROUP BY hour, cluster, pool, model
