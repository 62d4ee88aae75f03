-- One row: an attempt to notify a target of an alert, the newest first.
-- Params:  rule, fingerprint = '' or which; most.
SELECT at, target, rule, fingerprint, active_at, kind, attempt, outcome, detail, next_attempt_at
FROM alert_deliveries
WHERE ({rule:String} = '' OR rule = {rule:String}) AND ({fingerprint:String} = '' OR fingerprint = {fingerprint:String})
ORDER BY at DESC, target, rule, fingerprint
LIMIT {most:UInt32}
