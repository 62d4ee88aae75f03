-- A condition on entries: of the runs that the books show. Those before them are read by nobody.
(hour, run) IN (SELECT hour, argMax(run, checked_by) FROM closed_hours GROUP BY hour)
