-- One row: an hour in which jobs waited, and what they requested.
-- gpu_hours: waiting time in it x GPUs requested (NULL: no job reports them).   unsized_hours: waiting time of jobs whose
-- number of GPUs is not reported.
-- A job waits from `submitted` until it starts or is over, and again if it is submitted again after it lost its place.
-- The tenant is that of the books; for jobs that were never placed, the reported one. Those have no pool and model.
-- Traps:   a story is a list of numbers, 4 x milliseconds + what happened, and a job's first place has the least number
-- (milliseconds, then the device's place in the order of their names): aggregates of tuples cost several times as much. To group by
-- a job's names in place of allocation_hash costs twice as much.
-- Params:  start, end DateTime64(3) (UTC, [start, end)); tenants, projects, queues, pools, models, clusters Array(String),
--          empty: all.
WITH
    toUnixTimestamp64Milli({start:DateTime64(3,'UTC')}) AS start_ms,
    toUnixTimestamp64Milli({end:DateTime64(3,'UTC')}) AS end_ms,
    kinds AS
    (
        SELECT cluster, device_id, argMax((pool, model), (ts, state, units, model, pool)) AS kind, row_number() OVER (ORDER BY cluster, device_id) AS place
        FROM devices WHERE ts < {end:DateTime64(3,'UTC')} GROUP BY cluster, device_id
    ),
    places AS
    (
        SELECT
            allocation_hash,
            argMin(a.tenant, toUnixTimestamp64Milli(a.start_at) * 2097152 + d.place) AS tenant,
            argMin(a.project, toUnixTimestamp64Milli(a.start_at) * 2097152 + d.place) AS project,
            argMin(d.kind.1, toUnixTimestamp64Milli(a.start_at) * 2097152 + d.place) AS pool,
            argMin(d.kind.2, toUnixTimestamp64Milli(a.start_at) * 2097152 + d.place) AS model
        FROM allocations AS a
        LEFT JOIN kinds AS d ON a.cluster = d.cluster AND a.device_id = d.device_id
        WHERE a.start_at < {end:DateTime64(3,'UTC')}
            AND notEmpty(arrayConcat({tenants:Array(String)}, {projects:Array(String)}, {pools:Array(String)}, {models:Array(String)}))
        GROUP BY allocation_hash
    ),
    stories AS
    (
        SELECT
            allocation_hash,
            arrayCompact(arraySort(groupArray(toUnixTimestamp64Milli(ts) * 4
                + multiIf(event IN ('preempted', 'suspended'), 0, event = 'submitted', 1, event IN ('started', 'resized', 'resumed'), 2, 3)))) AS story,
            maxIf(e.gpus, event = 'submitted') AS gpus,
            argMaxIf(e.tenant, ts, event = 'submitted') AS tenant,
            argMaxIf(e.project, ts, event = 'submitted') AS project,
            argMaxIf(e.queue, ts, event = 'submitted') AS queue
        FROM events AS e
        WHERE ts >= {start:DateTime64(3,'UTC')} - INTERVAL 62 DAY AND ts < {end:DateTime64(3,'UTC')}
            AND (empty({clusters:Array(String)}) OR has({clusters:Array(String)}, cluster))
        GROUP BY allocation_hash
        HAVING countIf(event = 'submitted') > 0
    ),
    spans AS
    (
        SELECT
            s.gpus AS gpus,
            arrayJoin(arrayFilter(one -> one.2 > one.1, arrayMap(
                place -> (
                    greatest(intDiv(story[place], 4), start_ms),
                    if(place = length(story), end_ms, intDiv(story[place + 1], 4))
                ),
                arrayFilter(
                    place -> story[place] % 4 = 1 AND arrayLast(one -> one % 4 != 1, arraySlice(story, 1, place - 1)) % 4 = 0,
                    arrayEnumerate(story))))) AS span
        FROM stories AS s
        LEFT JOIN places AS p ON s.allocation_hash = p.allocation_hash
        WHERE (empty({tenants:Array(String)}) OR has({tenants:Array(String)}, toString(if(p.allocation_hash = 0, s.tenant, p.tenant))))
            AND (empty({projects:Array(String)}) OR has({projects:Array(String)}, toString(if(p.allocation_hash = 0, s.project, p.project))))
            AND (empty({queues:Array(String)}) OR has({queues:Array(String)}, toString(s.queue)))
            AND (empty({pools:Array(String)}) OR (p.allocation_hash != 0 AND has({pools:Array(String)}, toString(p.pool))))
            AND (empty({models:Array(String)}) OR (p.allocation_hash != 0 AND has({models:Array(String)}, toString(p.model))))
    )
SELECT hour, sum(part * gpus) AS gpu_hours, sumIf(part, gpus IS NULL) AS unsized_hours
FROM
(
    SELECT
        gpus,
        arrayJoin(range(toUInt32(intDiv(span.1, 3600000)), toUInt32(intDiv(span.2 + 3599999, 3600000)))) * 3600 AS hour,
        (least(span.2, (hour + 3600) * 1000) - greatest(span.1, hour * 1000)) / 3600000 AS part
    FROM spans
)
GROUP BY hour
