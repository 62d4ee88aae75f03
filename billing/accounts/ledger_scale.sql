-- One row: a number of units that devices in the hours of [start, end) have.
-- Params:  start, end: DateTime64(3, 'UTC').
SELECT DISTINCT device_units
FROM ledger
WHERE hour >= toDateTime({start:DateTime64(3, 'UTC')}, 'UTC') - INTERVAL 1 HOUR
    AND hour < toDateTime({end:DateTime64(3, 'UTC')}, 'UTC') + INTERVAL 1 HOUR
