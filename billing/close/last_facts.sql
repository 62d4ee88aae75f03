-- One row: how many facts of a kind there are and when the last was. Of samples no row is read: their parts know.
SELECT count() AS facts, max(ts) AS last FROM samples
UNION ALL
SELECT count() AS facts, max(ts) AS last FROM events
UNION ALL
SELECT count() AS facts, max(ts) AS last FROM devices
