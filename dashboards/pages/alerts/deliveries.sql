-- One row: a target that notifications were sent to in the period; those that fail now come first.
-- failed: attempts that failed or were refused.   detail: of the last such attempt.
-- Parameters: start, end DateTime64(3) (UTC); rule String ('': all)
SELECT
    target,
    countIf(outcome = 'sent') AS sent,
    countIf(outcome != 'sent') AS failed,
    max(d.at) AS last_at,
    toString(argMax(d.outcome, d.at)) AS last_outcome,
    argMaxIf(d.detail, d.at, d.outcome != 'sent') AS detail,
    uniqExactIf(fingerprint, outcome = 'sent') AS alerts
FROM alert_deliveries AS d
WHERE d.at >= {start:DateTime64(3,'UTC')} AND d.at < {end:DateTime64(3,'UTC')} AND ({rule:String} = '' OR d.rule = {rule:String})
GROUP BY target
ORDER BY last_outcome = 'sent', failed DESC, target
