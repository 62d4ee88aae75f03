-- One row: an alert as it is now, the worst first.
-- Params:  states = which; rule = '' or its name.
SELECT
    rule, fingerprint, state, severity, at, active_at, fired_at, keep_firing_since, resolved_at, value, labels, evidence, annotations
FROM alerts
WHERE has({states:Array(String)}, toString(state)) AND ({rule:String} = '' OR rule = {rule:String})
ORDER BY alerts.state = 'firing' DESC, severity DESC, active_at, rule, fingerprint
