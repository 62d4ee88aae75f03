-- One row: the last attempt to notify a target of an alert, and the newest occurrence that it was notified of as firing.
-- Params:  since = the oldest active_at that matters.
SELECT
    target, fingerprint,
    argMax((d.at, d.active_at, d.kind, d.attempt, d.outcome, d.next_attempt_at), (d.at, d.attempt)) AS newest,
    newest.1 AS at, newest.2 AS active_at, newest.3 AS kind, newest.4 AS attempt, newest.5 AS outcome,
    newest.6 AS next_attempt_at,
    maxIf(d.active_at, d.kind = 'firing' AND d.outcome = 'sent') AS reported_active_at
FROM alert_deliveries AS d
WHERE d.active_at >= {since:DateTime64(3, 'UTC')}
GROUP BY target, fingerprint
