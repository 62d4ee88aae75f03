-- Service level objectives and interference. Derived, but for what people apply: it can be measured again from the facts.

-- One row: a file of objectives as applied. The newest version is in force.
CREATE TABLE IF NOT EXISTS slo_files
(
    version    String COMMENT 'hash of the file',
    sequence   UInt64,
    applied_at DateTime64(3, 'UTC'),
    author     String,
    reason     String,
    objectives String COMMENT 'the file, canonical JSON'
)
ENGINE = ReplacingMergeTree
ORDER BY sequence;

-- One row: an objective of a file, as the engine uses it. cluster to service are regular expressions.
CREATE TABLE IF NOT EXISTS slo_definitions
(
    version        String,
    name           String,
    definition     String COMMENT 'hash of what decides on its points',
    kind           LowCardinality(String),
    unit           LowCardinality(String) COMMENT 'of its points',
    books          Bool COMMENT 'measured from the books: known until the last closed hour',
    cluster        String,
    tenant         String,
    queue          String,
    service        String,
    target         Float64 COMMENT 'least good part, 0-1',
    window_seconds UInt32,
    at_least       Float64 COMMENT 'known in a window before it is judged',
    owner          String,
    bound          Nullable(Float64) COMMENT 'seconds; of quota_redemption: GPUs guaranteed',
    since          LowCardinality(String) COMMENT 'submitted or started',
    metric         LowCardinality(String),
    quantile       Nullable(Float64),
    interpolate    Bool,
    reasons        Array(String) COMMENT 'regular expressions: reasons that do not count'
)
ENGINE = ReplacingMergeTree
ORDER BY (version, name);

CREATE VIEW IF NOT EXISTS slo_objectives AS
SELECT * EXCEPT version FROM slo_definitions FINAL
WHERE version = (SELECT argMax(version, sequence) FROM slo_files);

-- One row: how much of a series was good, bad and missing within the five minutes that end at `at`. Rows become visible
-- when slo_hours names their run; read the view `slo_series`.
CREATE TABLE IF NOT EXISTS slo_points
(
    definition LowCardinality(String),
    run        UInt64,
    hour       DateTime('UTC') CODEC(DoubleDelta, ZSTD(1)),
    at         DateTime('UTC') CODEC(DoubleDelta, ZSTD(1)),
    cluster    LowCardinality(String),
    tenant     LowCardinality(String),
    subject    LowCardinality(String) COMMENT 'a queue or a service; empty: all that the tenant has',
    good       Float64 CODEC(ZSTD(1)),
    bad        Float64 CODEC(ZSTD(1)),
    missing    Float64 CODEC(ZSTD(1)) COMMENT 'known to be there, and not whether good or bad',
    dark_seconds Float64 CODEC(ZSTD(1)) COMMENT 'time in which not even that is known'
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(hour)
ORDER BY (definition, hour, run, cluster, tenant, subject, at)
TTL hour + INTERVAL 400 DAY DELETE
SETTINGS non_replicated_deduplication_window = 1000, ttl_only_drop_parts = 1;

-- One row: from this run on, the points of an hour are those of `run`.
CREATE TABLE IF NOT EXISTS slo_hours
(
    definition LowCardinality(String),
    hour       DateTime('UTC'),
    run        UInt64
)
ENGINE = ReplacingMergeTree(run)
ORDER BY (definition, hour)
TTL hour + INTERVAL 400 DAY DELETE;

-- One row: how far an objective has been measured, and which facts that has seen. The newest run counts.
CREATE TABLE IF NOT EXISTS slo_measured
(
    definition   LowCardinality(String),
    run          UInt64,
    since        DateTime64(3, 'UTC'),
    until        DateTime64(3, 'UTC') COMMENT 'of an objective measured from the books: the end of the last closed hour',
    asked_until  DateTime64(3, 'UTC'),
    facts_until  DateTime64(3, 'UTC') COMMENT 'newest ingested_at of the batches seen',
    books_run    UInt64 COMMENT 'newest run of the hours closed'
)
ENGINE = ReplacingMergeTree(run)
ORDER BY definition;

CREATE VIEW IF NOT EXISTS slo_series AS
SELECT definition, hour, at, cluster, tenant, subject, good, bad, missing, dark_seconds
FROM slo_points
WHERE (definition, hour, run) IN (SELECT definition, hour, max(run) FROM slo_hours GROUP BY definition, hour);

-- One row: how a series stands at an instant; an objective of which nothing is known has one row without a tenant.
-- Units:   good, bad, missing in the objective's unit, over its window; sli, coverage, budget_left are parts of 1
--          (budget_left < 0: overdrawn); burn_*: 1 uses up exactly the budget in the window.
-- Shape:   null: not known, or less than at_least of it is. measured_until: where all windows end, at a whole five minutes
--          before it unless it is how far was measured.
--          burning: fast (2 % of the budget within an hour and still so in the last 5 minutes), medium (5 % within
--          6 hours and still so in the last 30 minutes), slow (10 % within 3 days and still so in the last 6 hours).
-- Params:  at.
-- Traps:   a burn rate cannot exceed 1 / (1 - target): limits are capped at nine tenths of that, and never below 1.
CREATE VIEW IF NOT EXISTS slo_status AS
WITH
    objective AS
    (
        SELECT
            o.*,
            m.until AS told_until,
            least(m.until, {at:DateTime64(3, 'UTC')}) AS until
        FROM slo_objectives AS o
        LEFT JOIN (SELECT definition, argMax(until, run) AS until FROM slo_measured GROUP BY definition) AS m
            ON o.definition = m.definition
    ),
    counted AS
    (
        SELECT
            p.name AS name,
            p.cluster AS cluster,
            p.tenant AS tenant,
            p.subject AS subject,
            sumIf(p.good, age < length) AS good,
            sumIf(p.bad, age < length) AS bad,
            sumIf(p.missing, age < length) AS missing,
            sumIf(p.dark_seconds, age < length) AS dark_seconds,
            [
                (sumIf(p.good, age < 300), sumIf(p.bad, age < 300)),
                (sumIf(p.good, age < 1800), sumIf(p.bad, age < 1800)),
                (sumIf(p.good, age < 3600), sumIf(p.bad, age < 3600)),
                (sumIf(p.good, age < 21600), sumIf(p.bad, age < 21600)),
                (sumIf(p.good, age < 259200), sumIf(p.bad, age < 259200))] AS windows
        FROM
        (
            SELECT
                s.cluster AS cluster, s.tenant AS tenant, s.subject AS subject, s.good AS good, s.bad AS bad,
                s.missing AS missing, s.dark_seconds AS dark_seconds, objective.name AS name,
                objective.window_seconds AS length, toUnixTimestamp(objective.until) - toUnixTimestamp(s.at) AS age
            FROM slo_series AS s
            INNER JOIN objective ON s.definition = objective.definition
            WHERE (s.at <= objective.until OR objective.until = objective.told_until)
                AND s.hour >= {at:DateTime64(3, 'UTC')} - INTERVAL 94 DAY
        ) AS p
        WHERE age < greatest(length, 259200)
        GROUP BY p.name, p.cluster, p.tenant, p.subject
    ),
    burnt AS
    (
        SELECT
            o.name AS objective, o.definition AS definition, o.kind AS kind, o.unit AS unit,
            c.cluster AS cluster, c.tenant AS tenant, c.subject AS subject, o.owner AS owner,
            o.target AS target, o.window_seconds AS window_seconds, o.at_least AS at_least,
            if(o.told_until = toDateTime64(0, 3, 'UTC'), NULL, o.until) AS measured_until,
            c.good AS good, c.bad AS bad, c.missing AS missing, c.dark_seconds AS dark_seconds,
            if(good + bad > 0 AND good + bad >= at_least, good / (good + bad), NULL) AS sli,
            if(good + bad + missing > 0,
                (good + bad) / (good + bad + missing) * greatest(0, 1 - dark_seconds / window_seconds), NULL) AS coverage,
            1 - (1 - sli) / (1 - target) AS budget_left,
            arrayMap(w -> if(w.1 + w.2 > 0 AND w.1 + w.2 >= at_least, w.2 / (w.1 + w.2) / (1 - target), NULL), c.windows) AS burns,
            arrayMap(part -> least(greatest(part.1 * window_seconds / part.2, 1), 0.9 / (1 - target)),
                [(0.02, 3600), (0.05, 21600), (0.1, 259200)]) AS limits
        FROM objective AS o
        LEFT JOIN counted AS c ON o.name = c.name
    )
SELECT
    objective, definition, kind, unit, cluster, tenant, subject, owner, target, window_seconds, measured_until,
    good, bad, missing, dark_seconds, sli, coverage, budget_left,
    multiIf(sli IS NULL, 'unknown', sli >= target, 'met', 'missed') AS state,
    burns[1] AS burn_5m, burns[2] AS burn_30m, burns[3] AS burn_1h, burns[4] AS burn_6h, burns[5] AS burn_3d,
    limits[1] AS limit_fast, limits[2] AS limit_medium, limits[3] AS limit_slow,
    multiIf(
        burn_1h >= limit_fast AND burn_5m >= limit_fast, 'fast',
        burn_6h >= limit_medium AND burn_30m >= limit_medium, 'medium',
        burn_3d >= limit_slow AND burn_6h >= limit_slow, 'slow',
        '') AS burning
FROM burnt;

-- One row: from `since` on, an identity runs another version (an image, a model, a driver): its baselines start anew.
-- An empty identity: everything in the cluster; an empty cluster: everywhere.
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
ORDER BY (cluster, identity, since);

-- One row: a workload in one window, alone or beside others, against what it does alone. Rows become visible when
-- interference_hours names their run; read the view `interference`.
CREATE TABLE IF NOT EXISTS interference_samples
(
    run                UInt64,
    hour               DateTime('UTC') CODEC(DoubleDelta, ZSTD(1)),
    at                 DateTime('UTC') CODEC(DoubleDelta, ZSTD(1)) COMMENT 'end of the window',
    window_seconds     UInt32,
    cluster            LowCardinality(String),
    workload_id        String CODEC(ZSTD(1)),
    service            LowCardinality(String) COMMENT 'empty: it tells nothing of how well it does',
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
    metric             LowCardinality(String) COMMENT 'by which it is measured; empty: none is told',
    load               LowCardinality(String) COMMENT 'bucket: requests running (r) and prompt tokens of one (t), powers of 2',
    value              Nullable(Float64) CODEC(ZSTD(1)),
    p99_to_p50         Nullable(Float64) CODEC(ZSTD(1)) COMMENT 'null: fewer than 300 observations',
    utilization        Nullable(Float64) CODEC(ZSTD(1)) COMMENT 'its own, 0-1',
    has_demand         Bool COMMENT 'requests ran or waited, or it told of its progress',
    busy               Nullable(Float64) CODEC(ZSTD(1)) COMMENT 'of its busiest device, everybody: SM activity, 0-1',
    together           Nullable(Float64) CODEC(ZSTD(1)) COMMENT 'sum of all workloads'' utilization on it',
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
SETTINGS ttl_only_drop_parts = 1;

-- One row: from this run on, the samples of an hour are those of `run`.
CREATE TABLE IF NOT EXISTS interference_hours
(
    hour DateTime('UTC'),
    run  UInt64
)
ENGINE = ReplacingMergeTree(run)
ORDER BY hour
TTL hour + INTERVAL 400 DAY DELETE;

-- One row: a run that finished. It had seen the facts that arrived until facts_until, and the hours closed by books_run.
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
ORDER BY run;

-- One row: what an identity does alone, on one kind of share at one load, from its windows of [since, until]. The newest
-- run of a key counts, while `until` is no older than the history that is looked at.
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
ORDER BY (cluster, identity, version, model, partition_profile, metric, load);

CREATE VIEW IF NOT EXISTS interference AS
SELECT * EXCEPT run
FROM interference_samples
WHERE (hour, run) IN (SELECT hour, max(run) FROM interference_hours GROUP BY hour);

-- One row: a stretch in which a workload was disturbed: raised by 3 of 5 windows, over after 10 quiet minutes.
-- Units:   slowdown: of the disturbed windows that were measured; lost_gpu_seconds: GPUs x time x (1 - 1/S) of them.
-- Shape:   ended_at: ten quiet minutes after the last disturbed window, null until then. Quiet is what is known not to be
--          disturbed; what is not known neither raises nor clears. grade: the best of its windows.
-- Params:  since, until: windows that end in (since, until].
CREATE VIEW IF NOT EXISTS interference_episodes AS
WITH
    told AS
    (
        SELECT
            cluster, workload_id, service, tenant, identity, at, window_seconds, gpus, slowdown, channels, grade, neighbours,
            neighbour_identities,
            disturbed = true AS is_disturbed,
            sum(toUInt8(is_disturbed)) OVER (PARTITION BY cluster, workload_id, service ORDER BY toUnixTimestamp(at)
                RANGE BETWEEN 299 PRECEDING AND CURRENT ROW) AS lately,
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
            FROM told
            WHERE is_disturbed
        )
    ),
    quiet AS
    (
        SELECT cluster, workload_id, service, groupArray((quiet_seconds, at)) AS seen
        FROM (SELECT cluster, workload_id, service, quiet_seconds, at FROM told ORDER BY at)
        GROUP BY cluster, workload_id, service
    )
SELECT
    s.cluster AS cluster, s.workload_id AS workload_id, s.service AS service,
    any(s.tenant) AS tenant, any(s.identity) AS identity,
    min(s.at) - any(s.window_seconds) AS started_at,
    min(if(s.lately >= 3, s.at, toDateTime('2100-01-01', 'UTC'))) AS raised_at,
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
HAVING max(s.lately) >= 3;

-- One row: how fast one identity runs beside another, of the windows in which it had that neighbour alone.
-- Units:   speed: 1 / S, the mean of the windows; 1: as alone.
-- Params:  since, until.
CREATE VIEW IF NOT EXISTS colocation_speeds AS
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
