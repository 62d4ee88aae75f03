-- Service level objectives. Derived, but for the applied files: they can be measured again from the facts.

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
ORDER BY sequence
COMMENT 'One row: a file of objectives as applied; the newest is in force. Source: slo apply.';

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
ORDER BY (version, name)
COMMENT 'One row: an objective of a file, as it is measured; cluster to service are regular expressions. Units: bound in seconds. Source: slo apply.';

CREATE OR REPLACE VIEW slo_objectives AS
SELECT * EXCEPT version FROM slo_definitions FINAL
WHERE version = (SELECT argMax(version, sequence) FROM slo_files);

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
SETTINGS non_replicated_deduplication_window = 1000, ttl_only_drop_parts = 1
COMMENT 'One row: how much of a series was good, bad and missing within the five minutes that end at at. Units: the objective''s. Source: the measuring of objectives. Read the view slo_series.';

CREATE TABLE IF NOT EXISTS slo_hours
(
    definition LowCardinality(String),
    hour       DateTime('UTC'),
    run        UInt64
)
ENGINE = ReplacingMergeTree(run)
ORDER BY (definition, hour)
TTL hour + INTERVAL 400 DAY DELETE
COMMENT 'One row: from this run on, the points of an hour are those of run; the newest counts. Source: the measuring of objectives.';

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
ORDER BY definition
COMMENT 'One row: how far an objective has been measured, and from which facts; the newest run counts. Source: the measuring of objectives.';

CREATE OR REPLACE VIEW slo_series AS
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
CREATE OR REPLACE VIEW slo_status AS
WITH
    objective AS
    (
        SELECT
            o.*,
            m.until AS known_until,
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
            WHERE (s.at <= objective.until OR objective.until = objective.known_until)
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
            if(o.known_until = toDateTime64(0, 3, 'UTC'), NULL, o.until) AS measured_until,
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
