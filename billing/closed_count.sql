-- One row: how many hours of a period are closed.
-- Params:  start, end = [start, end), whole hours.
SELECT count() AS closed
FROM closed_hours FINAL
WHERE hour >= {start:DateTime64(3, 'UTC')} AND hour < {end:DateTime64(3, 'UTC')} AND has_facts
