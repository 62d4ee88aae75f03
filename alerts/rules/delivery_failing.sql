-- One row: a target that alerts cannot be delivered to.
-- Units:   value: attempts without success since the last that was sent.
-- Params:  at; hours = what was attempted so lately, by the clock.
SELECT
    target,
    max(newest.1) AS value,
    argMax(newest.3, newest.4) AS detail,
    count() AS alerts
FROM
(
    SELECT target, fingerprint, argMax((attempt, outcome, detail, at), at) AS newest
    FROM alert_deliveries
    WHERE at > {at:DateTime64(3, 'UTC')} - toIntervalHour({hours:UInt32})
    GROUP BY target, fingerprint
    HAVING newest.2 != 'sent'
)
GROUP BY target
