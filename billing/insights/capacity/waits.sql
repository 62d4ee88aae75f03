-- One row: jobs that were submitted and started in a period: of a group of devices, of what was free when they were submitted, or
-- all of them (by). A group: the devices of one model in one pool of a cluster, here that of a job's first device.
-- band: 0-4: less than 5, 10, 20, 40 % of the group's available GPUs were free in the hour in which they were submitted, or more;
--       -1: not closed, or the caller does not know.
-- waited: those that waited a minute or more.   median_seconds, p95_seconds: of all.   waited_gpu_hours: GPUs of their first
-- placement x how long they waited.   unsubmitted: jobs that started in it, and nobody reported when they were submitted.
-- Traps:   a job's first device is the least of numbers (milliseconds of its start, then the device's place in the order of their
-- names): an aggregate over tuples costs several times as much, one over texts twice, and so does grouping by a job's names in
-- place of allocation_hash. Bands are looked up in one text: a join would copy a group's, a character for each hour, for every job.
-- Params:  start, end DateTime64(3) (UTC, [start, end)); tenants, projects, queues, pools, models, clusters Array(String), empty: all;
--          group_clusters, group_pools, group_models, group_bands Array(String): of each group, its band of each hour from that of
--          the start on, a character each: 0-4 or -.
WITH
    length({group_bands:Array(String)}[1]) AS hours,
    kinds AS
    (
        SELECT
            cluster, device_id, argMax((pool, model, units), (ts, state, units, model, pool)) AS kind, row_number() OVER (ORDER BY cluster, device_id) AS place
        FROM devices WHERE ts < {end:DateTime64(3,'UTC')} GROUP BY cluster, device_id
    ),
    placed AS
    (
        SELECT
            a.allocation_hash AS allocation_hash, any(a.cluster) AS cluster,
            min(toUnixTimestamp64Milli(a.start_at) * 2097152 + k.place) AS first,
            intDiv(first, 2097152) AS started_ms,
            argMin(
                (empty({tenants:Array(String)}) OR has({tenants:Array(String)}, a.tenant))
                AND (empty({projects:Array(String)}) OR has({projects:Array(String)}, a.project))
                AND (empty({queues:Array(String)}) OR has({queues:Array(String)}, a.queue)),
                toUnixTimestamp64Milli(a.start_at) * 2097152 + k.place) AS is_chosen,
            groupArray(toUnixTimestamp64Milli(a.start_at)) AS starts,
            groupArray(a.units / greatest(1, k.kind.3)) AS shares,
            arraySum((share, start) -> if(start = started_ms, share, 0), shares, starts) AS gpus
        FROM allocations AS a
        LEFT JOIN kinds AS k ON a.cluster = k.cluster AND a.device_id = k.device_id
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
    firsts AS
    (
        SELECT k.place AS place, k.kind.1 AS pool, k.kind.2 AS model, f.number AS number
        FROM kinds AS k
        LEFT JOIN free AS f ON f.cluster = k.cluster AND f.pool = k.kind.1 AND f.model = k.kind.2
    ),
    jobs AS
    (
        SELECT
            p.cluster AS cluster, k.pool AS pool, k.model AS model, p.gpus AS gpus,
            s.allocation_hash != 0 AND toUnixTimestamp64Milli(s.submitted_at) <= p.started_ms AS known,
            greatest(0, p.started_ms - toUnixTimestamp64Milli(s.submitted_at)) / 1000 AS wait_seconds,
            intDiv(toUnixTimestamp(toDateTime(s.submitted_at, 'UTC')), 3600) - intDiv(toUnixTimestamp(toDateTime({start:DateTime64(3,'UTC')}, 'UTC')), 3600) AS since,
            indexOf(['0', '1', '2', '3', '4'], if(k.number = 0 OR since < 0 OR since >= hours, '',
                substring(arrayStringConcat({group_bands:Array(String)}), (k.number - 1) * hours + since + 1, 1))) - 1 AS band
        FROM placed AS p
        LEFT JOIN firsts AS k ON k.place = p.first % 2097152
        LEFT JOIN submitted AS s ON p.allocation_hash = s.allocation_hash
        WHERE (s.allocation_hash = 0 OR s.submitted_at >= {start:DateTime64(3,'UTC')})
            AND p.is_chosen
            AND (empty({pools:Array(String)}) OR has({pools:Array(String)}, toString(k.pool)))
            AND (empty({models:Array(String)}) OR has({models:Array(String)}, toString(k.model)))
            AND (empty({clusters:Array(String)}) OR has({clusters:Array(String)}, toString(p.cluster)))
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
