-- What an alert that fires says now: the words of the moment at which it began to fire grow old.

-- One row: a firing alert as the last evaluation saw it.
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
ORDER BY (rule, fingerprint);

CREATE OR REPLACE VIEW alerts AS
SELECT
    a.rule AS rule, a.fingerprint AS fingerprint,
    newest.1 AS run, newest.2 AS at, newest.3 AS state, newest.4 AS severity, newest.5 AS active_at,
    newest.6 AS fired_at, newest.7 AS quiet_since, newest.8 AS resolved_at,
    a.newest.3 = 'firing' AND e.active_at = a.newest.5 AND e.at > a.newest.2 AS is_said_anew,
    if(is_said_anew, e.value, newest.9) AS value,
    newest.10 AS labels,
    if(is_said_anew, e.evidence, newest.11) AS evidence,
    if(is_said_anew, e.annotations, newest.12) AS annotations
FROM
(
    SELECT
        rule, fingerprint,
        argMax((h.run, h.at, h.state, h.severity, h.active_at, h.fired_at, h.quiet_since, h.resolved_at, h.value,
                h.labels, h.evidence, h.annotations), h.at) AS newest
    FROM alert_history AS h
    GROUP BY rule, fingerprint
) AS a
LEFT JOIN (SELECT * FROM alert_evidence FINAL) AS e ON e.rule = a.rule AND e.fingerprint = a.fingerprint;
