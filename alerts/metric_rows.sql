-- One row: how many alerts of a rule are in a state.
SELECT rule, toString(severity) AS severity, toString(state) AS state, count() AS alerts
FROM alerts
WHERE state IN ('pending', 'firing')
GROUP BY rule, severity, state
ORDER BY rule, severity, state
