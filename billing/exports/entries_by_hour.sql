-- One row: an hour of the closed ledger and how many entries it has.
-- Params:  start, end = [start, end).
SELECT
    toDateTime64(hour, 3, 'UTC') AS hour,
    count() AS entries
FROM ledger
WHERE charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
GROUP BY hour
ORDER BY hour
