-- One row: a change of an alert's state, the newest first.
-- Params:  rule, fingerprint = '' or which; most.
SELECT at, rule, fingerprint, state, severity, active_at, fired_at, keep_firing_since, resolved_at, value, labels, evidence, annotations
FROM alert_history
WHERE ({rule:String} = '' OR rule = {rule:String}) AND ({fingerprint:String} = '' OR fingerprint = {fingerprint:String})
ORDER BY at DESC, rule, fingerprint
LIMIT {most:UInt32}
