-- One row: an alert that fires, or that was resolved by an evaluation that began within the last {hours} hours.
-- Params:  now, by the clock; hours; with_evidence: 1 or 0, which leaves it out.
SELECT
    rule, fingerprint, state, at, active_at, resolved_at, value, labels, annotations,
    if({with_evidence:UInt8} = 1, evidence, '{}') AS evidence,
    fromUnixTimestamp64Micro(toInt64(run), 'UTC') AS run_at
FROM alerts
WHERE state = 'firing'
    OR (state = 'resolved' AND fired_at IS NOT NULL
        AND run_at > {now:DateTime64(3, 'UTC')} - toIntervalHour({hours:UInt32}))
ORDER BY severity DESC, rule, fingerprint
