-- One row: a target and an outcome, and how many attempts to notify it had that.
SELECT target, toString(outcome) AS outcome, count() AS n
FROM alert_deliveries
GROUP BY ALL
ORDER BY ALL
