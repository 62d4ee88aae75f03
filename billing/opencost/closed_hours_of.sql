-- One row: how many hours, whole or in part, of [start, end) are closed.
-- Params:  start, end.
-- Traps:   an hour that later facts have emptied (inputs and content are 0) is as one in which there never was a fact.
SELECT count() AS hours
FROM closed_hours FINAL
WHERE hour > toDateTime({start:DateTime64(3, 'UTC')}, 'UTC') - INTERVAL 1 HOUR AND hour < {end:DateTime64(3, 'UTC')} AND (inputs != 0 OR content != 0)
