-- One row: a closed hour of the clock that overlaps the period, oldest first.
-- hours: how much of it is in the period: 1, less at its ends in zones of half hours. All else is an average over that, in
-- GPUs.
-- allocated: held, shares as fractions.   available: held or free; NULL: the reader sees some tenants only.
-- waiting: GPUs requested by waiting jobs.   waiting_unsized: waiting jobs whose number of GPUs is not reported.
-- A job waits from `submitted` until it starts or is over, and again if it is submitted again after it lost its place.
-- The tenant is that of the books; for jobs that were never placed, the reported one. Those have no pool and model.
-- Params:  start, end DateTime64(3) (UTC, [start, end)); tenants, projects, queues, pools, models, clusters Array(String),
--          empty: all. `available` is of all tenants, projects and queues.
WITH
    closed AS
    (
        SELECT DISTINCT
            hour,
            dateDiff('second', greatest(toDateTime({start:DateTime64(3,'UTC')}, 'UTC'), hour), least(toDateTime({end:DateTime64(3,'UTC')}, 'UTC'), hour + INTERVAL 1 HOUR)) / 3600 AS hours
        FROM closed_hours
        WHERE hour > {start:DateTime64(3,'UTC')} - INTERVAL 1 HOUR AND hour < {end:DateTime64(3,'UTC')}
    ),
    held AS
    (
        SELECT
            l.hour AS hour,
            sumIf(toFloat64(l.used_unit_ms + l.idle_unit_ms + l.unmetered_unit_ms) / (l.device_units * 3600000),
                l.allocation_id != ''
                AND (empty({tenants:Array(String)}) OR has({tenants:Array(String)}, l.tenant))
                AND (empty({projects:Array(String)}) OR has({projects:Array(String)}, l.project))
                AND (empty({queues:Array(String)}) OR has({queues:Array(String)}, l.queue))) AS allocated,
            sum(toFloat64(l.used_unit_ms + l.idle_unit_ms + l.unmetered_unit_ms + l.unallocated_unit_ms) / (l.device_units * 3600000)) AS available
        FROM ledger AS l
        WHERE l.hour > {start:DateTime64(3,'UTC')} - INTERVAL 1 HOUR AND l.hour < {end:DateTime64(3,'UTC')}
            AND l.charge_period_start >= {start:DateTime64(3,'UTC')} AND l.charge_period_start < {end:DateTime64(3,'UTC')}
            AND (empty({pools:Array(String)}) OR has({pools:Array(String)}, l.pool))
            AND (empty({models:Array(String)}) OR has({models:Array(String)}, l.model))
            AND (empty({clusters:Array(String)}) OR has({clusters:Array(String)}, l.cluster))
        GROUP BY hour
    ),
    places AS
    (
        SELECT
            a.cluster AS cluster, a.allocation_id AS allocation_id,
            argMin((toString(a.tenant), toString(a.project), toString(d.kind.1), toString(d.kind.2)), (a.start_at, a.device_id)) AS first
        FROM allocations AS a
        LEFT JOIN
        (
            SELECT cluster, device_id, argMax((pool, model), ts) AS kind FROM devices WHERE ts < {end:DateTime64(3,'UTC')} GROUP BY cluster, device_id
        ) AS d ON a.cluster = d.cluster AND a.device_id = d.device_id
        WHERE a.start_at < {end:DateTime64(3,'UTC')}
        GROUP BY cluster, allocation_id
    ),
    stories AS
    (
        SELECT
            cluster, allocation_id,
            arraySort(groupUniqArray((ts, multiIf(event IN ('preempted', 'suspended'), 0, event = 'submitted', 1, event IN ('started', 'resized', 'resumed'), 2, 3)))) AS story,
            maxIf(e.gpus, event = 'submitted') AS gpus,
            argMaxIf((toString(e.tenant), toString(e.project), toString(e.queue)), ts, event = 'submitted') AS asked
        FROM events AS e
        WHERE ts >= {start:DateTime64(3,'UTC')} - INTERVAL 62 DAY AND ts < {end:DateTime64(3,'UTC')}
            AND (empty({clusters:Array(String)}) OR has({clusters:Array(String)}, cluster))
        GROUP BY cluster, allocation_id
        HAVING countIf(event = 'submitted') > 0
    ),
    spans AS
    (
        SELECT
            s.gpus AS gpus,
            arrayJoin(arrayFilter(one -> one.2 > one.1, arrayMap(
                place -> (
                    greatest(story[place].1, {start:DateTime64(3,'UTC')}),
                    if(place = length(story), {end:DateTime64(3,'UTC')}, story[place + 1].1)
                ),
                arrayFilter(
                    place -> story[place].2 = 1 AND arrayLast(one -> one.2 != 1, arraySlice(story, 1, place - 1)).2 = 0,
                    arrayEnumerate(story))))) AS span
        FROM stories AS s
        LEFT JOIN places AS p ON s.cluster = p.cluster AND s.allocation_id = p.allocation_id
        WHERE (empty({tenants:Array(String)}) OR has({tenants:Array(String)}, if(p.allocation_id = '', s.asked.1, p.first.1)))
            AND (empty({projects:Array(String)}) OR has({projects:Array(String)}, if(p.allocation_id = '', s.asked.2, p.first.2)))
            AND (empty({queues:Array(String)}) OR has({queues:Array(String)}, s.asked.3))
            AND (empty({pools:Array(String)}) OR (p.allocation_id != '' AND has({pools:Array(String)}, p.first.3)))
            AND (empty({models:Array(String)}) OR (p.allocation_id != '' AND has({models:Array(String)}, p.first.4)))
    ),
    waits AS
    (
        SELECT hour, sum(part * gpus) AS gpu_hours, sumIf(part, gpus IS NULL) AS unsized_hours
        FROM
        (
            SELECT
                gpus,
                toDateTime(arrayJoin(range(toUInt32(intDiv(toUnixTimestamp64Milli(span.1), 3600000)), toUInt32(intDiv(toUnixTimestamp64Milli(span.2) + 3599999, 3600000)))) * 3600, 'UTC') AS hour,
                (least(toUnixTimestamp64Milli(span.2), (toUnixTimestamp(hour) + 3600) * 1000) - greatest(toUnixTimestamp64Milli(span.1), toUnixTimestamp(hour) * 1000)) / 3600000 AS part
            FROM spans
        )
        GROUP BY hour
    )
SELECT
    c.hour AS step, c.hours AS hours,
    h.allocated / c.hours AS allocated,
    if((SELECT yes FROM sees_all), toNullable(h.available / c.hours), NULL) AS available,
    ifNull(w.gpu_hours, 0) / c.hours AS waiting,
    w.unsized_hours / c.hours AS waiting_unsized
FROM closed AS c
LEFT JOIN held AS h ON c.hour = h.hour
LEFT JOIN waits AS w ON c.hour = w.hour
ORDER BY step
