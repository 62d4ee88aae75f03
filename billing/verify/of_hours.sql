-- One row: a row of a view in a period.   $$view: the view.   Params:  start, end = [start, end).
SELECT * FROM $view WHERE hour >= {start:DateTime64(3, 'UTC')} AND hour < {end:DateTime64(3, 'UTC')}
