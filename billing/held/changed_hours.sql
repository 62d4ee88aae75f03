-- One row: the first and the last hour that a close has computed again, whether its entries are others or not: a session
-- may be longer by time in which its device was away.
-- Parameters: run UInt64: the last one before.
SELECT minOrNull(hour) AS first, maxOrNull(hour) AS last FROM closed_hours WHERE checked_by > {run:UInt64}
