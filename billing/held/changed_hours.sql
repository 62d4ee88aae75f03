-- One row: the first and the last hour of which a close has written other entries than were there.
-- Parameters: run UInt64: the last one before.
SELECT minOrNull(hour) AS first, maxOrNull(hour) AS last FROM closed_hours WHERE run > {run:UInt64}
