-- One row: how many alerts of a severity began to fire in a day or hour of the billing zone.
-- Parameters: start, end DateTime64(3) (UTC); zone String; tenants Array(String), empty: all; rule String, empty: all;
--             grain String ('day' | 'hour')
SELECT
    dateTrunc({grain:String}, fired_at, {zone:String}) AS step,
    toString(severity) AS severity,
    uniqExact(rule, fingerprint, active_at) AS fired
FROM alert_history
WHERE fired_at < {end:DateTime64(3,'UTC')} AND fired_at >= {start:DateTime64(3,'UTC')}
    AND ({rule:String} = '' OR rule = {rule:String})
    AND (empty({tenants:Array(String)}) OR has({tenants:Array(String)}, JSONExtractString(labels, 'tenant')))
GROUP BY step, severity
ORDER BY step
