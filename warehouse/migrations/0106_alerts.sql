-- Alerts: what rules found, what became of it, and who was notified. Derived from the facts, but for silences.

CREATE TABLE IF NOT EXISTS alert_transitions
(
    run          UInt64 COMMENT 'microseconds since 1970 at which the evaluation began',
    rule         LowCardinality(String),
    fingerprint  String COMMENT 'of the rule''s name and the identity labels',
    at           DateTime64(3, 'UTC'),
    state        Enum8('inactive' = 1, 'pending' = 2, 'firing' = 3, 'resolved' = 4),
    severity     Enum8('info' = 1, 'warning' = 2, 'critical' = 3),
    active_at    DateTime64(3, 'UTC') COMMENT 'since when the condition has held',
    fired_at     Nullable(DateTime64(3, 'UTC')),
    keep_firing_since  Nullable(DateTime64(3, 'UTC')) COMMENT 'it fires because of keep_firing_for alone, since then',
    resolved_at  Nullable(DateTime64(3, 'UTC')),
    value        Nullable(Float64),
    labels       String CODEC(ZSTD(1)) COMMENT 'JSON: identity, further and fixed labels, owner, severity, alertname',
    evidence     String CODEC(ZSTD(1)) COMMENT 'JSON: the other columns of the query''s row',
    annotations  String CODEC(ZSTD(1)) COMMENT 'JSON: summary, description, action, runbook'
)
ENGINE = ReplacingMergeTree(run)
PARTITION BY toYYYYMM(at)
ORDER BY (rule, fingerprint, at, state)
COMMENT 'One row: from at on (time of the facts), an instance of a rule is in this state. Source: the evaluation of rules. Visible once alert_runs has its run: read the views alert_history and alerts.';

CREATE TABLE IF NOT EXISTS alert_runs
(
    run             UInt64,
    started_at      DateTime64(3, 'UTC'),
    finished_at     DateTime64(3, 'UTC'),
    evaluated_until DateTime64(3, 'UTC'),
    evaluations     UInt32 COMMENT 'of a rule at an instant',
    failed          UInt32 COMMENT 'of those that failed or saw no data',
    instances       UInt64 COMMENT 'rows that the queries answered',
    transitions     UInt32,
    rules           String COMMENT 'hash of the rules it was made with'
)
ENGINE = ReplacingMergeTree
ORDER BY run
COMMENT 'One row: an evaluation that was written completely, until evaluated_until (time of the facts). Source: the evaluation of rules.';

CREATE OR REPLACE VIEW alert_history AS
SELECT * FROM alert_transitions FINAL
WHERE run IN (SELECT run FROM alert_runs);

CREATE TABLE IF NOT EXISTS alert_evidence
(
    rule         LowCardinality(String),
    fingerprint  String,
    active_at    DateTime64(3, 'UTC') COMMENT 'of the occurrence that it is about',
    at           DateTime64(3, 'UTC') COMMENT 'the instant that was evaluated',
    value        Nullable(Float64),
    labels       String CODEC(ZSTD(1)) COMMENT 'JSON, as the alert''s',
    evidence     String CODEC(ZSTD(1)) COMMENT 'JSON: the other columns of the query''s row',
    annotations  String CODEC(ZSTD(1)) COMMENT 'JSON: summary, description, action, runbook'
)
ENGINE = ReplacingMergeTree(at)
ORDER BY (rule, fingerprint)
COMMENT 'One row: a firing alert as the last evaluation saw it. Source: the evaluation of rules.';

-- One row: an instance of a rule as it is now.
CREATE OR REPLACE VIEW alerts AS
SELECT
    a.rule AS rule, a.fingerprint AS fingerprint,
    newest.1 AS run, newest.2 AS at, newest.3 AS state, newest.4 AS severity, newest.5 AS active_at,
    newest.6 AS fired_at, newest.7 AS keep_firing_since, newest.8 AS resolved_at,
    a.newest.3 = 'firing' AND e.active_at = a.newest.5 AND e.at > a.newest.2 AS is_renewed,
    if(is_renewed, e.value, newest.9) AS value,
    newest.10 AS labels,
    if(is_renewed, e.evidence, newest.11) AS evidence,
    if(is_renewed, e.annotations, newest.12) AS annotations
FROM
(
    SELECT
        rule, fingerprint,
        argMax((h.run, h.at, h.state, h.severity, h.active_at, h.fired_at, h.keep_firing_since, h.resolved_at, h.value,
                h.labels, h.evidence, h.annotations), h.at) AS newest
    FROM alert_history AS h
    GROUP BY rule, fingerprint
) AS a
LEFT JOIN (SELECT * FROM alert_evidence FINAL) AS e ON e.rule = a.rule AND e.fingerprint = a.fingerprint;

CREATE TABLE IF NOT EXISTS alert_deliveries
(
    at              DateTime64(3, 'UTC'),
    target          LowCardinality(String) COMMENT 'receiver/transport/number of the endpoint',
    rule            LowCardinality(String),
    fingerprint     String,
    active_at       DateTime64(3, 'UTC') COMMENT 'which occurrence of the alert',
    kind            Enum8('firing' = 1, 'resolved' = 2),
    attempt         UInt32 COMMENT 'from 1, since the last that was sent',
    outcome         Enum8('sent' = 1, 'failed' = 2, 'refused' = 3) COMMENT 'refused: sending the same again is of no use',
    detail          String CODEC(ZSTD(1)),
    next_attempt_at Nullable(DateTime64(3, 'UTC')) COMMENT 'null: sent'
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(at)
ORDER BY (target, fingerprint, at)
TTL toDateTime(at) + INTERVAL 400 DAY DELETE
COMMENT 'One row: an attempt to notify a target of an alert. Clock time. Source: the delivery of notifications.';

CREATE TABLE IF NOT EXISTS alert_silences
(
    id         String,
    revision   UInt32,
    matchers   String COMMENT 'JSON: label to globs',
    starts_at  DateTime64(3, 'UTC'),
    ends_at    DateTime64(3, 'UTC'),
    author     String,
    reason     String,
    created_at DateTime64(3, 'UTC')
)
ENGINE = ReplacingMergeTree(revision)
ORDER BY id
COMMENT 'One row: a revision of a silence during [starts_at, ends_at); the newest counts. Clock time. Source: alerts silence add and end.';
