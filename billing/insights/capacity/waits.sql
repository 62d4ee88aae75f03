-- One row: jobs that were submitted and started in a period: of a group of devices, of what was free when they were submitted, or
-- all of them (by). A group: the devices of one model in one pool of a cluster, here that of a job's first device.
-- band: 0-4: less than 5, 10, 20, 40 % of the group's available GPUs were free in the hour in which they were submitted, or more;
--       -1: not closed. There are none where who asks sees some tenants only.
-- waited: those that waited a minute or more.   median_seconds, p95_seconds: of all.   waited_gpu_hours: GPUs of their first
-- placement x how long they waited.   unsubmitted: jobs that started in it, and nobody reported when they were submitted.
-- Params:  start, end DateTime64(3) (UTC, [start, end)); tenants, projects, queues, pools, models, clusters Array(String), empty: all.
WITH
    kinds AS
    (
        SELECT cluster, device_id, argMax((pool, model, units), ts) AS kind FROM devices WHERE ts < {end:DateTime64(3,'UTC')} GROUP BY cluster, device_id
    ),
    placed AS
    (
        SELECT
            a.cluster AS cluster, a.allocation_id AS allocation_id, min(a.start_at) AS started_at,
            argMin((toString(a.tenant), toString(a.project), toString(a.queue), toString(k.kind.1), toString(k.kind.2)), (a.start_at, a.device_id)) AS first,
            groupArray((a.start_at, a.units / greatest(1, k.kind.3))) AS parts,
            arraySum(one -> one.2, arrayFilter(one -> one.1 = started_at, parts)) AS gpus
        FROM allocations AS a
        LEFT JOIN kinds AS k ON a.cluster = k.cluster AND a.device_id = k.device_id
        WHERE a.start_at < {end:DateTime64(3,'UTC')}
        GROUP BY cluster, allocation_id
        HAVING started_at >= {start:DateTime64(3,'UTC')}
    ),
    submitted AS
    (
        SELECT cluster, allocation_id, min(ts) AS submitted_at
        FROM events
        WHERE event = 'submitted' AND ts < {end:DateTime64(3,'UTC')} AND ts >= {start:DateTime64(3,'UTC')} - INTERVAL 62 DAY
        GROUP BY cluster, allocation_id
    ),
    free AS
    (
        SELECT
            l.hour AS hour, l.cluster AS cluster, l.pool AS pool, l.model AS model,
            sum(l.unallocated_unit_ms / l.device_units) AS free_ms,
            sum(toFloat64(l.used_unit_ms + l.idle_unit_ms + l.unmetered_unit_ms + l.unallocated_unit_ms) / l.device_units) AS available_ms,
            if(available_ms > 0, free_ms / available_ms, 0) AS part
        FROM ledger AS l
        WHERE l.hour > {start:DateTime64(3,'UTC')} - INTERVAL 1 HOUR AND l.hour < {end:DateTime64(3,'UTC')}
            AND (SELECT yes FROM sees_all)
        GROUP BY hour, cluster, pool, model
    ),
    jobs AS
    (
        SELECT
            p.cluster AS cluster, p.first.4 AS pool, p.first.5 AS model, p.gpus AS gpus, s.allocation_id != '' AND s.submitted_at <= p.started_at AS known,
            greatest(0, dateDiff('millisecond', s.submitted_at, p.started_at)) / 1000 AS wait_seconds,
            if(f.available_ms > 0 OR f.free_ms > 0, multiIf(f.part < 0.05, 0, f.part < 0.1, 1, f.part < 0.2, 2, f.part < 0.4, 3, 4), -1) AS band
        FROM placed AS p
        LEFT JOIN submitted AS s ON p.cluster = s.cluster AND p.allocation_id = s.allocation_id
        LEFT JOIN free AS f ON f.cluster = p.cluster AND f.pool = p.first.4 AND f.model = p.first.5
            AND f.hour = toStartOfHour(toDateTime(s.submitted_at, 'UTC'))
        WHERE (s.allocation_id = '' OR s.submitted_at >= {start:DateTime64(3,'UTC')})
            AND (empty({tenants:Array(String)}) OR has({tenants:Array(String)}, p.first.1))
            AND (empty({projects:Array(String)}) OR has({projects:Array(String)}, p.first.2))
            AND (empty({queues:Array(String)}) OR has({queues:Array(String)}, p.first.3))
            AND (empty({pools:Array(String)}) OR has({pools:Array(String)}, p.first.4))
            AND (empty({models:Array(String)}) OR has({models:Array(String)}, p.first.5))
            AND (empty({clusters:Array(String)}) OR has({clusters:Array(String)}, p.cluster))
    )
SELECT
    multiIf(grouping(cluster) = 0, 'group', grouping(band) = 0, 'band', 'all') AS by,
    cluster, pool, model, band,
    countIf(known) AS jobs,
    countIf(known AND wait_seconds >= 60) AS waited,
    quantileExactOrNullIf(0.5)(wait_seconds, known) AS median_seconds,
    quantileExactOrNullIf(0.95)(wait_seconds, known) AS p95_seconds,
    sumIf(gpus * wait_seconds, known) / 3600 AS waited_gpu_hours,
    countIf(NOT known) AS unsubmitted
FROM jobs
GROUP BY GROUPING SETS ((cluster, pool, model), (band), ())
ORDER BY by, cluster, pool, model, band
