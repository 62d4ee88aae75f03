-- One row: an entry of the log (SQLite), in order.   $$which: a condition; $$most: at most so many, -1: all.
SELECT kind, at, job_id, body, sequence FROM entries WHERE $which ORDER BY sequence LIMIT $most
