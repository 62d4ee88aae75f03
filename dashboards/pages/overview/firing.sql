-- One row: an alert that fires now, whatever the period, the worst first.
-- labels, annotations, evidence: JSON; evidence is {} unless with_evidence is 1.
-- Parameters: with_evidence UInt8; tenants Array(String), empty: all
SELECT
    rule, fingerprint, severity, active_at, at, value, labels, annotations, if({with_evidence:UInt8} = 1, evidence, '{}') AS evidence
FROM alerts
WHERE state = 'firing' AND (empty({tenants:Array(String)}) OR has({tenants:Array(String)}, JSONExtractString(labels, 'tenant')))
ORDER BY alerts.severity DESC, active_at, rule, fingerprint
