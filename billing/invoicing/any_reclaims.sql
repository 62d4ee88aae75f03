-- One row: how many rows of events say that an idle policy took something back, read by a close or not.
-- Params:  start, end = [start, end).
-- Reads:   a thirtieth of the CPU of idle_reclaims.sql, which most months need not run.
SELECT count() AS rows
FROM events
WHERE reason IN ('IdleReclaimed', 'IdleReclaimed, end estimated') AND ts >= {start:DateTime64(3, 'UTC')} AND ts < {end:DateTime64(3, 'UTC')}
