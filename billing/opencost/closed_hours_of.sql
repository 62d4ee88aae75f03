-- One row: how many hours, whole or in part, of [start, end) are closed.
-- Params:  start, end.
SELECT count() AS hours
FROM closed_hours FINAL
WHERE hour > toDateTime({start:DateTime64(3, 'UTC')}, 'UTC') - INTERVAL 1 HOUR AND hour < {end:DateTime64(3, 'UTC')} AND has_facts
