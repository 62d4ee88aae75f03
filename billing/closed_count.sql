-- One row: how many hours of a period are closed.
-- Params:  start, end = [start, end), whole hours.
-- Traps:   an hour that later facts have emptied (inputs and content are 0) is as one in which there never was a fact.
SELECT count() AS closed
FROM closed_hours FINAL
WHERE hour >= {start:DateTime64(3, 'UTC')} AND hour < {end:DateTime64(3, 'UTC')} AND (inputs != 0 OR content != 0)
