-- One row: an alert that fires now, whatever the period, the worst first.
-- Parameters: tenants Array(String), empty: all
SELECT
    rule, severity, active_at, JSONExtractString(annotations, 'summary') AS summary
FROM alerts
WHERE state = 'firing' AND (empty({tenants:Array(String)}) OR has({tenants:Array(String)}, JSONExtractString(labels, 'tenant')))
ORDER BY alerts.severity DESC, active_at, rule, fingerprint
