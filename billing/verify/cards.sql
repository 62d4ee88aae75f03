-- One row: a rate card by which hours were priced ('' = none), and from when to when those lie.
-- Params:  start, end = hours of [start, end).   $$priced_hours = priced_hours.sql.
SELECT rate_card AS card, min(hour) AS first, max(hour) + INTERVAL 1 HOUR AS last
FROM ($priced_hours)
GROUP BY card
ORDER BY card
