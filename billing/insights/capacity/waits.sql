-- One row: jobs that were submitted and started in a period: of a group of devices, of what was free when they were submitted, or
-- all of them (by). A group: the devices of one model in one pool of a cluster, here that of a job's first device.
-- band: 0-4: less than 5, 10, 20, 40 % of the group's available GPUs were free in the hour in which they were submitted, or more;
--       -1: not closed, or the caller does not know.
-- waited: those that waited a minute or more.   median_seconds, p95_seconds: of all.   waited_gpu_hours: GPUs of their first
-- placement x how long they waited.   unsubmitted: jobs that started in it, and nobody reported when they were submitted.
-- Traps:   a job's first device is the least of numbers (milliseconds of its start, then the device's place: those that nobody
-- reported, then the others in the order of their names): an aggregate over tuples costs several times as much, one over texts
-- twice, and so does grouping by a job's names in place of allocation_hash. Bands are looked up in one text: a join would copy a
-- group's, a character for each hour, for every job. Jobs are summed by numbers first (cells): names and each of the three ways to
-- group would be looked at for every job.
-- Params:  start, end DateTime64(3) (UTC, [start, end)); tenants, projects, queues, pools, models, clusters Array(String), empty: all;
--          group_clusters, group_pools, group_models, group_bands Array(String): of each group, its band of each hour from that of
--          the start on, a character each: 0-4 or -.
WITH
    length({group_bands:Array(String)}[1]) AS hours,
    free AS
    (
        SELECT one.1 AS cluster, one.2 AS pool, one.3 AS model, one.4 AS number
        FROM
        (
            SELECT arrayJoin(arrayZip(
                {group_clusters:Array(String)}, {group_pools:Array(String)}, {group_models:Array(String)},
                arrayEnumerate({group_models:Array(String)}))) AS one
        )
    ),
    kinds AS
    (
        SELECT cluster, device_id, argMax((pool, model, units), (ts, state, units, model, pool)) AS kind
        FROM devices WHERE ts < {end:DateTime64(3,'UTC')} GROUP BY cluster, device_id
    ),
    places AS
    (
        SELECT
            a.cluster AS cluster, a.device_id AS device_id, k.kind.1 AS pool, k.kind.2 AS model, greatest(1, k.kind.3) AS units,
            f.number AS number,
            row_number() OVER (ORDER BY notEmpty(k.device_id), cluster, device_id) AS place,
            dense_rank() OVER (ORDER BY cluster, pool, model) AS kind_number,
            (empty({pools:Array(String)}) OR has({pools:Array(String)}, toString(pool)))
                AND (empty({models:Array(String)}) OR has({models:Array(String)}, toString(model)))
                AND (empty({clusters:Array(String)}) OR has({clusters:Array(String)}, toString(cluster))) AS is_chosen
        FROM (SELECT DISTINCT cluster, device_id FROM allocations WHERE start_at < {end:DateTime64(3,'UTC')}) AS a
        LEFT JOIN kinds AS k ON a.cluster = k.cluster AND a.device_id = k.device_id
        LEFT JOIN free AS f ON f.cluster = a.cluster AND f.pool = k.kind.1 AND f.model = k.kind.2
    ),
    placed AS
    (
        SELECT
            a.allocation_hash AS allocation_hash,
            min(toUnixTimestamp64Milli(a.start_at) * 2097152 + k.place) AS first,
            intDiv(first, 2097152) AS started_ms,
            argMin(
                (empty({tenants:Array(String)}) OR has({tenants:Array(String)}, a.tenant))
                AND (empty({projects:Array(String)}) OR has({projects:Array(String)}, a.project))
                AND (empty({queues:Array(String)}) OR has({queues:Array(String)}, a.queue)),
                toUnixTimestamp64Milli(a.start_at) * 2097152 + k.place) AS is_chosen,
            sumArgMin(a.units / k.units, a.start_at) AS gpus
        FROM allocations AS a
        LEFT JOIN places AS k ON a.cluster = k.cluster AND a.device_id = k.device_id
        WHERE a.start_at < {end:DateTime64(3,'UTC')}
        GROUP BY allocation_hash
        HAVING started_ms >= toUnixTimestamp64Milli({start:DateTime64(3,'UTC')})
    ),
    submitted AS
    (
        SELECT allocation_hash, min(ts) AS submitted_at
        FROM events
        WHERE event = 'submitted' AND ts < {end:DateTime64(3,'UTC')} AND ts >= {start:DateTime64(3,'UTC')} - INTERVAL 62 DAY
        GROUP BY allocation_hash
    ),
    jobs AS
    (
        SELECT
            k.kind_number AS kind_number, p.gpus AS gpus,
            s.allocation_hash != 0 AND toUnixTimestamp64Milli(s.submitted_at) <= p.started_ms AS known,
            greatest(0, p.started_ms - toUnixTimestamp64Milli(s.submitted_at)) / 1000 AS wait_seconds,
            intDiv(toUnixTimestamp(toDateTime(s.submitted_at, 'UTC')), 3600) - intDiv(toUnixTimestamp(toDateTime({start:DateTime64(3,'UTC')}, 'UTC')), 3600) AS since,
            indexOf(['0', '1', '2', '3', '4'], if(k.number = 0 OR since < 0 OR since >= hours, '',
                substring(arrayStringConcat({group_bands:Array(String)}), (k.number - 1) * hours + since + 1, 1))) - 1 AS band
        FROM placed AS p
        LEFT JOIN places AS k ON k.place = p.first % 2097152
        LEFT JOIN submitted AS s ON p.allocation_hash = s.allocation_hash
        WHERE (s.allocation_hash = 0 OR s.submitted_at >= {start:DateTime64(3,'UTC')})
            AND p.is_chosen AND k.is_chosen
    ),
    cells AS
    (
        SELECT
            kind_number, band,
            countIf(known) AS jobs,
            countIf(known AND wait_seconds >= 60) AS waited,
            quantilesExactIfState(0.5, 0.95)(wait_seconds, known) AS waits,
            sumIf(gpus * wait_seconds, known) AS gpu_seconds,
            countIf(NOT known) AS unsubmitted
        FROM jobs
        GROUP BY kind_number, band
    )
SELECT
    multiIf(grouping(cluster) = 0, 'group', grouping(band) = 0, 'band', 'all') AS by,
    cluster, pool, model, band,
    sum(c.jobs) AS jobs,
    sum(c.waited) AS waited,
    quantilesExactIfMerge(0.5, 0.95)(c.waits) AS quantiles,
    if(jobs > 0, quantiles[1], NULL) AS median_seconds,
    if(jobs > 0, quantiles[2], NULL) AS p95_seconds,
    sum(c.gpu_seconds) / 3600 AS waited_gpu_hours,
    sum(c.unsubmitted) AS unsubmitted
FROM cells AS c
LEFT JOIN (SELECT DISTINCT kind_number, cluster, pool, model FROM places) AS k ON c.kind_number = k.kind_number
GROUP BY GROUPING SETS ((cluster, pool, model), (band), ())
ORDER BY by, cluster, pool, model, band
