-- One row: an instance of a rule that is pending or firing, as of the last evaluation that was written.
SELECT rule, fingerprint, state, at, active_at, fired_at, keep_firing_since, resolved_at, value, labels, evidence
FROM alerts
WHERE state IN ('pending', 'firing')
