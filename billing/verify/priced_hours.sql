-- One row: a closed hour of [start, end), and the rate card by which it was priced ('' = none).
-- Params:  start, end = hours.   $$latest_closes = latest_closes.sql.
-- Reads:   hours of a close that was killed are left out: it is not recorded by which card it priced them.
SELECT closed.hour AS hour, latest.rate_card AS rate_card
FROM
(
    SELECT 1 AS one, hour, max(checked_by) AS checked_by
    FROM closed_hours
    WHERE hour >= {start:DateTime64(3, 'UTC')} AND hour < {end:DateTime64(3, 'UTC')}
    GROUP BY hour
) AS closed
ASOF INNER JOIN ($latest_closes) AS latest ON closed.one = latest.one AND closed.hour < latest.closed_until
WHERE closed.checked_by <= latest.run
