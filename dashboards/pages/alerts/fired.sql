-- One row: an occurrence of an alert that fired in the period, the newest first; its state is the last one known.
-- resolved_at: NULL: it still fires, or nobody saw its end.   in_all: how many there are; the newest {most} are shown.
-- labels, annotations, evidence: JSON; evidence is {} unless with_evidence is 1.
-- Parameters: with_evidence UInt8; start, end DateTime64(3) (UTC); tenants Array(String), empty: all; rule String, empty: all; most UInt32
WITH changes AS
(
    SELECT
        rule, fingerprint, active_at,
        any(fired_at) AS since,
        argMax((toString(h.state), toString(h.severity), h.resolved_at, h.labels, h.annotations,
            h.value, if({with_evidence:UInt8} = 1, h.evidence, '{}'), h.at), h.at) AS last
    FROM alert_history AS h
    WHERE fired_at < {end:DateTime64(3,'UTC')} AND fired_at >= {start:DateTime64(3,'UTC')}
        AND ({rule:String} = '' OR rule = {rule:String})
        AND (empty({tenants:Array(String)}) OR has({tenants:Array(String)}, JSONExtractString(labels, 'tenant')))
    GROUP BY rule, fingerprint, active_at
)
SELECT
    rule, fingerprint, since,
    last.1 AS state,
    last.2 AS severity,
    last.3 AS resolved_at,
    JSONExtractString(last.4, 'owner') AS owner,
    last.4 AS labels,
    last.5 AS annotations,
    last.6 AS value,
    last.7 AS evidence,
    last.8 AS at,
    active_at,
    count() OVER () AS in_all
FROM changes
ORDER BY since DESC, rule, fingerprint
LIMIT {most:UInt32}
