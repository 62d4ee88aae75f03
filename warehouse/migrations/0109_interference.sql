-- Interference among workloads on shared devices. Derived, but for versions: it can be measured again from the facts.

-- One row: whether the connection sees all tenants. A tenant's sees no row of schema_migrations (access/scope.py).
CREATE OR REPLACE VIEW sees_all AS SELECT count() > 0 AS yes FROM schema_migrations;

CREATE TABLE IF NOT EXISTS interference_versions
(
    cluster  LowCardinality(String),
    identity LowCardinality(String),
    since    DateTime64(3, 'UTC'),
    version  String,
    author   String,
    at       DateTime64(3, 'UTC') DEFAULT now64(3, 'UTC')
)
ENGINE = ReplacingMergeTree(at)
ORDER BY (cluster, identity, since)
COMMENT 'One row: from since on, an identity runs another version (an image, a model, a driver), and its baselines start anew. An empty identity: everything in the cluster; an empty cluster: everywhere. Source: interference version.';

CREATE TABLE IF NOT EXISTS interference_samples
(
    run                UInt64,
    hour               DateTime('UTC') CODEC(DoubleDelta, ZSTD(1)),
    at                 DateTime('UTC') CODEC(DoubleDelta, ZSTD(1)) COMMENT 'end of the window',
    window_seconds     UInt32,
    cluster            LowCardinality(String),
    workload_id        String CODEC(ZSTD(1)),
    service            LowCardinality(String) COMMENT 'empty: it reports nothing of how well it does',
    tenant             LowCardinality(String),
    identity           LowCardinality(String) COMMENT 'what shares a baseline',
    version            LowCardinality(String),
    device_ids         Array(LowCardinality(String)),
    gpus               Float64 COMMENT 'held; devices that it was found on where the books do not know',
    model              LowCardinality(String),
    partition_profile  LowCardinality(String),
    state              Enum8('exclusive' = 1, 'shared' = 2, 'unsure' = 3) COMMENT 'whether others had processes on its devices',
    neighbours         Array(String) COMMENT 'workloads with processes on its devices',
    neighbour_identities Array(String),
    metric             LowCardinality(String) COMMENT 'by which it is measured; empty: none is reported',
    load               LowCardinality(String) COMMENT 'bucket: requests running (r) and prompt tokens of one (t), powers of 2',
    value              Nullable(Float64) CODEC(ZSTD(1)),
    p99_to_p50         Nullable(Float64) CODEC(ZSTD(1)) COMMENT 'null: fewer than 300 observations',
    utilization        Nullable(Float64) CODEC(ZSTD(1)) COMMENT 'its own, 0-1',
    has_demand         Bool COMMENT 'requests ran or waited, or it reported its progress',
    busy               Nullable(Float64) CODEC(ZSTD(1)) COMMENT 'of its busiest device, everybody: SM activity, 0-1',
    utilization_sum           Nullable(Float64) CODEC(ZSTD(1)) COMMENT 'sum of all workloads'' utilization on it',
    dram_active        Nullable(Float64) CODEC(ZSTD(1)),
    context_switch_active Nullable(Float64) CODEC(ZSTD(1)),
    context_switch_requests_per_second Nullable(Float64) CODEC(ZSTD(1)),
    sm_clock_hertz     Nullable(Float64) CODEC(ZSTD(1)),
    throttle_seconds   Nullable(Float64) CODEC(ZSTD(1)) COMMENT 'power and thermal, within the window',
    pcie_bytes_per_second Nullable(Float64) CODEC(ZSTD(1)) COMMENT 'the busier direction',
    baseline_value     Nullable(Float64) CODEC(ZSTD(1)),
    baseline_windows   UInt32,
    slowdown           Nullable(Float64) CODEC(ZSTD(1)) COMMENT 'S; 1: as alone. Null: no measure, or no baseline at this load',
    coefficient        Nullable(Float64) CODEC(ZSTD(1)) COMMENT 'I = S - 1',
    jitter             Nullable(Float64) CODEC(ZSTD(1)) COMMENT 'J: P99/P50 here by P99/P50 alone',
    channels           Array(LowCardinality(String)) COMMENT 'scheduler, memory, clock, pcie: what moved',
    grade              Enum8('measured' = 1, 'likely' = 2, 'suspected' = 3, 'unknown' = 4),
    disturbed          Nullable(Bool) COMMENT 'null: not known'
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(hour)
ORDER BY (hour, run, cluster, workload_id, service, at)
TTL hour + INTERVAL 400 DAY DELETE
SETTINGS ttl_only_drop_parts = 1
COMMENT 'One row: a workload in one window, alone or beside others, compared with what it does alone. Units: in the names; ratios 0-1. Source: the measuring of interference. Read the view interference.';

CREATE TABLE IF NOT EXISTS interference_hours
(
    hour DateTime('UTC'),
    run  UInt64
)
ENGINE = ReplacingMergeTree(run)
ORDER BY hour
TTL hour + INTERVAL 400 DAY DELETE
COMMENT 'One row: from this run on, the samples of an hour are those of run; the newest counts. Source: the measuring of interference.';

CREATE TABLE IF NOT EXISTS interference_runs
(
    run         UInt64,
    since       DateTime64(3, 'UTC'),
    until       DateTime64(3, 'UTC'),
    facts_until DateTime64(3, 'UTC'),
    books_run   UInt64,
    settings    String COMMENT 'JSON'
)
ENGINE = ReplacingMergeTree
ORDER BY run
COMMENT 'One row: a run that finished, which had the facts that arrived until facts_until and the hours closed by books_run. Source: the measuring of interference.';

CREATE TABLE IF NOT EXISTS interference_baselines
(
    run               UInt64,
    cluster           LowCardinality(String),
    identity          LowCardinality(String),
    version           LowCardinality(String),
    model             LowCardinality(String),
    partition_profile LowCardinality(String),
    metric            LowCardinality(String),
    load              LowCardinality(String),
    windows           UInt32,
    since             DateTime('UTC'),
    until             DateTime('UTC'),
    value             Nullable(Float64) COMMENT 'median',
    value_low         Nullable(Float64) COMMENT '5th percentile',
    value_high        Nullable(Float64) COMMENT '95th percentile',
    p99_to_p50        Nullable(Float64) COMMENT 'median of the windows with 300 observations or more; else of 300 windows',
    utilization       Nullable(Float64),
    dram_active       Nullable(Float64),
    context_switch_active Nullable(Float64),
    context_switch_requests_per_second Nullable(Float64),
    sm_clock_hertz    Nullable(Float64),
    pcie_bytes_per_second Nullable(Float64)
)
ENGINE = ReplacingMergeTree(run)
ORDER BY (cluster, identity, version, model, partition_profile, metric, load)
COMMENT 'One row: what an identity does alone on one kind of share at one load, from its windows of [since, until]; the newest run counts. Units: in the names; value in the metric''s. Source: the measuring of interference.';

-- One row: a workload in one window, see interference_samples. To a tenant, neighbours that are not its own have no name: ''.
CREATE OR REPLACE VIEW interference AS
WITH
    (SELECT yes FROM sees_all) AS all_are_named,
    arrayMap(
        one -> if(
            all_are_named
                OR (cluster, one) IN (SELECT cluster, workload_id FROM allocations WHERE NOT (SELECT yes FROM sees_all)),
            one, ''),
        s.neighbours) AS named
SELECT
    s.* EXCEPT run
    REPLACE (
        named AS neighbours,
        if(has(named, ''), arrayDistinct(named), s.neighbour_identities) AS neighbour_identities)
FROM interference_samples AS s
WHERE (hour, run) IN (SELECT hour, max(run) FROM interference_hours GROUP BY hour);

-- One row: a stretch in which a workload was disturbed: raised by 3 of 5 windows, over after 10 quiet minutes.
-- Units:   slowdown: of the disturbed windows that were measured; lost_gpu_seconds: GPUs x time x (1 - 1/S) of them.
-- Shape:   ended_at: ten quiet minutes after the last disturbed window, null until then. Quiet is what is known not to be
--          disturbed; what is not known neither raises nor clears. grade: the best of its windows.
-- Params:  since, until: windows that end in (since, until].
CREATE OR REPLACE VIEW interference_episodes AS
WITH
    judged AS
    (
        SELECT
            cluster, workload_id, service, tenant, identity, at, window_seconds, gpus, slowdown, channels, grade, neighbours,
            neighbour_identities,
            disturbed = true AS is_disturbed,
            sum(toUInt8(is_disturbed)) OVER (PARTITION BY cluster, workload_id, service ORDER BY toUnixTimestamp(at)
                RANGE BETWEEN 299 PRECEDING AND CURRENT ROW) AS recent,
            sum(if(disturbed = false, window_seconds, 0)) OVER (PARTITION BY cluster, workload_id, service ORDER BY at
                ROWS UNBOUNDED PRECEDING) AS quiet_seconds
        FROM interference
        WHERE at > toDateTime({since:DateTime64(3, 'UTC')}, 'UTC') AND at <= toDateTime({until:DateTime64(3, 'UTC')}, 'UTC')
            AND disturbed IS NOT NULL
    ),
    stretch AS
    (
        SELECT
            *,
            sum(toUInt8(begins)) OVER (PARTITION BY cluster, workload_id, service ORDER BY at ROWS UNBOUNDED PRECEDING) AS number
        FROM
        (
            SELECT
                *,
                quiet_seconds - lagInFrame(quiet_seconds, 1, 0) OVER (PARTITION BY cluster, workload_id, service ORDER BY at
                    ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) >= 600 AS begins
            FROM judged
            WHERE is_disturbed
        )
    ),
    quiet AS
    (
        SELECT cluster, workload_id, service, groupArray((quiet_seconds, at)) AS seen
        FROM (SELECT cluster, workload_id, service, quiet_seconds, at FROM judged ORDER BY at)
        GROUP BY cluster, workload_id, service
    )
SELECT
    s.cluster AS cluster, s.workload_id AS workload_id, s.service AS service,
    any(s.tenant) AS tenant, any(s.identity) AS identity,
    min(s.at) - any(s.window_seconds) AS started_at,
    min(if(s.recent >= 3, s.at, toDateTime('2100-01-01', 'UTC'))) AS raised_at,
    max(s.at) AS disturbed_until,
    arrayFirstOrNull(pair -> pair.1 >= max(s.quiet_seconds) + 600, any(q.seen)).2 AS ended_at,
    count() AS disturbed_windows,
    avg(s.slowdown) AS mean_slowdown,
    max(s.slowdown) AS max_slowdown,
    sum(if(s.slowdown > 1, s.gpus * s.window_seconds * (1 - 1 / s.slowdown), NULL)) AS lost_gpu_seconds,
    min(s.grade) AS grade,
    arraySort(groupUniqArrayArray(s.channels)) AS channels,
    arraySort(groupUniqArrayArray(s.neighbours)) AS neighbours,
    arraySort(groupUniqArrayArray(s.neighbour_identities)) AS neighbour_identities
FROM stretch AS s
INNER JOIN quiet AS q ON s.cluster = q.cluster AND s.workload_id = q.workload_id AND s.service = q.service
GROUP BY s.cluster, s.workload_id, s.service, s.number
HAVING max(s.recent) >= 3;

-- One row: how fast one identity runs beside another, of the windows in which it had that neighbour alone.
-- Units:   speed: 1 / S, the mean of the windows; 1: as alone.
-- Params:  since, until.
CREATE OR REPLACE VIEW colocation_speeds AS
SELECT
    cluster, model, partition_profile, identity, neighbour_identities[1] AS neighbour,
    count() AS windows,
    uniqExact(workload_id, neighbours[1]) AS pairs,
    avg(1 / slowdown) AS speed,
    quantileExact(0.5)(slowdown) AS median_slowdown
FROM interference
WHERE at > toDateTime({since:DateTime64(3, 'UTC')}, 'UTC') AND at <= toDateTime({until:DateTime64(3, 'UTC')}, 'UTC')
    AND state = 'shared' AND slowdown > 0 AND length(neighbours) = 1
GROUP BY cluster, model, partition_profile, identity, neighbour;
