-- As 0126, of facts that differ in what no price depends on: a device's vendor and memory, whether a job may be preempted, and a
-- number that one of them has and the other lacks. As in the books, one that is there comes before one that is not.

-- One row: an allocation that holds a device, or a part of it, at an instant, as its source's events report it; the
-- newest placing event names the devices, and one that is suspended or over holds nothing.
-- start_at: since when without a break. placed_at: of that event. gpus: as requested.
CREATE OR REPLACE VIEW holders AS
SELECT
    cluster, allocation_id, start_at,
    place.2 AS node, place.3 AS device_id, place.4 AS partition_id, place.5 AS units, place.6 AS workload_id,
    place.7 AS tenant, place.8 AS project, place.9 AS queue, place.10 AS priority, place.11 AS preemptible,
    place.12 AS gpus, placed_at
FROM
(
    SELECT
        cluster, allocation_id,
        maxIf(ts, event IN ('started', 'resumed')) AS start_at,
        groupUniqArrayIf(
            (ts, e.node, e.device_id, e.partition_id, e.units, e.workload_id, e.tenant, e.project, e.queue, e.priority,
             ifNull(e.preemptible, false), e.gpus, indexOf(['resized', 'resumed', 'started'], toString(e.event)), e.source, e.partition_profile),
            event IN ('started', 'resized') OR (event = 'resumed' AND e.device_id != '')) AS places,
        arrayMax(arrayMap(place -> place.1, places)) AS placed_at
    FROM events AS e
    WHERE ts <= {at:DateTime64(3, 'UTC')} AND event IN ('started', 'resized', 'resumed')
        AND (cluster, allocation_id) IN
        (
            SELECT cluster, allocation_id
            FROM events
            WHERE ts <= {at:DateTime64(3, 'UTC')} AND event != 'submitted'
            GROUP BY cluster, allocation_id
            HAVING maxIf(ts, event IN ('started', 'resized', 'resumed'))
                > maxIf(ts, event IN ('suspended', 'preempted', 'finished', 'failed', 'cancelled', 'rejected'))
        )
    GROUP BY cluster, allocation_id
)
ARRAY JOIN arrayCompact(
    place -> (place.3, place.4),
    arraySort(
        place -> (place.3, place.4, place.13, place.7, place.8, place.9, place.6, place.2, place.14, place.15, ifNull(place.5, 0),
            isNull(place.12), ifNull(place.12, 0), isNull(place.10), ifNull(place.10, 0), NOT place.11),
        arrayFilter(place -> place.1 = placed_at, places))) AS place;

-- One row: an allocation that waits at an instant: submitted, and neither started nor over since.
CREATE OR REPLACE VIEW waiters AS
SELECT
    cluster, allocation_id, submitted_at, reported_at,
    newest.1 AS workload_id, newest.2 AS tenant, newest.3 AS project, newest.4 AS queue, newest.5 AS priority,
    newest.6 AS gpus, newest.7 AS reason, newest.8 AS message
FROM
(
    SELECT
        cluster, allocation_id,
        min(ts) AS submitted_at,
        max(ts) AS reported_at,
        argMax((e.workload_id, e.tenant, e.project, e.queue, e.priority, e.gpus, e.reason, e.message), (ts, cityHash64(e.workload_id, e.tenant, e.project, e.queue, e.reason, e.message, isNull(e.priority), ifNull(e.priority, 0), isNull(e.gpus), ifNull(e.gpus, 0)))) AS newest,
        countIf(event != 'submitted') AS changes
    FROM events AS e
    WHERE ts <= {at:DateTime64(3, 'UTC')}
    GROUP BY cluster, allocation_id
    HAVING changes = 0
);

-- One row: a device as it is at an instant; removed ones are not here. since: when it got into its state.
CREATE OR REPLACE VIEW devices_at AS
SELECT
    cluster, device_id,
    newest.1 AS node, newest.2 AS model, newest.3 AS pool, newest.4 AS units, newest.5 AS state,
    states[1 + arrayLastIndex(change -> change.2 != newest.5, states)].1 AS since
FROM
(
    SELECT
        cluster, device_id,
        argMax((d.node, d.model, d.pool, d.units, d.state), (d.ts, d.state, d.units, d.model, d.pool, d.node)) AS newest,
        arraySort(groupArray((ts, d.state))) AS states
    FROM devices AS d
    WHERE ts <= {at:DateTime64(3, 'UTC')}
    GROUP BY cluster, device_id
)
WHERE newest.5 != 'removed';

CREATE OR REPLACE VIEW v_devices
(
    cluster      String COMMENT 'as its collector calls it',
    node         String COMMENT 'host name',
    device_id    String COMMENT 'vendor UUID',
    vendor       String COMMENT 'of the device',
    model        String COMMENT 'of the device',
    memory_bytes Nullable(UInt64) COMMENT 'NULL: not reported',
    units        UInt32 COMMENT '1; 7 or 4 under MIG; N for N replicas',
    pool         String COMMENT 'of the device',
    state        String COMMENT 'available, unavailable or removed',
    changed_at   DateTime64(3, 'UTC') COMMENT 'last reported'
)
AS SELECT
    cluster, newest.1 AS node, device_id, newest.2 AS vendor, newest.3 AS model, newest.4 AS memory_bytes,
    newest.5 AS units, newest.6 AS pool, toString(newest.7) AS state, changed_at
FROM
(
    SELECT
        cluster, device_id, max(ts) AS changed_at,
        argMax((d.node, d.vendor, d.model, d.memory_bytes, d.units, d.pool, d.state), (d.ts, d.state, d.units, d.model, d.pool, d.node, d.vendor, ifNull(d.memory_bytes, 0), isNull(d.memory_bytes))) AS newest
    FROM devices AS d
    GROUP BY cluster, device_id
)
COMMENT 'One row: a device as it was last reported.';

CREATE OR REPLACE VIEW v_queue_wait
(
    cluster       String COMMENT 'as its collector calls it',
    source        String COMMENT 'which scheduler reported it',
    allocation_id String COMMENT 'the right to a share of a device, as its source calls it',
    workload_id   String COMMENT 'pod UID, job id or service',
    tenant        String COMMENT 'who pays, where it was placed and closed; else as the source reported it',
    project       String COMMENT 'the tenant''s part: namespace or account',
    queue         String COMMENT 'where it waited',
    priority      Nullable(Int64) COMMENT 'as the source reported it; NULL: not reported',
    gpus          Nullable(Float64) COMMENT 'requested',
    submitted_at  DateTime64(3, 'UTC') COMMENT 'reported first',
    started_at    Nullable(DateTime64(3, 'UTC')) COMMENT 'for the first time; NULL: not yet',
    ended_at      Nullable(DateTime64(3, 'UTC')) COMMENT 'NULL: not over',
    wait_seconds  Nullable(Float64) COMMENT 'from submitted to started; NULL: it did not start',
    preemptions   UInt64 COMMENT 'how often it was preempted',
    last_event    String COMMENT 'the newest of its events',
    last_reason   String COMMENT 'the scheduler''s word with the last event'
)
AS SELECT
    w.cluster AS cluster, w.newest.5 AS source, w.allocation_id AS allocation_id, w.newest.1 AS workload_id,
    if(p.allocation_id != '', p.tenant, w.newest.2) AS tenant,
    if(p.allocation_id != '', p.project, w.newest.3) AS project,
    w.newest.4 AS queue, w.newest.6 AS priority, w.newest.7 AS gpus,
    w.submitted_at AS submitted_at, w.started_at AS started_at, w.ended_at AS ended_at,
    dateDiff('millisecond', w.submitted_at, w.started_at) / 1000 AS wait_seconds,
    w.preemptions AS preemptions, w.last.1 AS last_event, w.last.2 AS last_reason
FROM
(
    SELECT
        cluster, allocation_id,
        argMax((e.workload_id, e.tenant, e.project, e.queue, e.source, e.priority, e.gpus), (e.tenant != '', e.queue != '', e.ts, cityHash64(e.workload_id, e.tenant, e.project, e.queue, e.source, isNull(e.priority), ifNull(e.priority, 0), isNull(e.gpus), ifNull(e.gpus, 0)))) AS newest,
        minIf(e.ts, e.event = 'submitted') AS submitted_at,
        minOrNullIf(e.ts, e.event = 'started') AS started_at,
        maxOrNullIf(e.ts, e.event IN ('finished', 'failed', 'cancelled', 'rejected')) AS ended_at,
        uniqExactIf(e.ts, e.event = 'preempted') AS preemptions,
        argMax((e.event, e.reason), (e.ts, e.event, e.reason)) AS last
    FROM events AS e
    GROUP BY cluster, allocation_id
    HAVING countIf(e.event = 'submitted') > 0
) AS w
LEFT JOIN
(
    SELECT cluster, allocation_id, argMin(tenant, start_at) AS tenant, argMin(project, start_at) AS project
    FROM allocations
    GROUP BY cluster, allocation_id
) AS p ON w.cluster = p.cluster AND w.allocation_id = p.allocation_id
COMMENT 'One row: an allocation that was submitted, and how long it waited.';
