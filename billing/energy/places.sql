-- One row: a place in which energy was measured in an hour (since the epoch) of a period.
-- Params:  start, end = [start, end).
SELECT DISTINCT toUInt32(intDiv(toUnixTimestamp(hour), 3600)) AS epoch_hour, cluster, pool
FROM energy
WHERE charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
