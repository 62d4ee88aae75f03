-- One row: how many rows that arrived since a period began could not be read. Their own times are not known, and one that had arrived
-- before cannot be of it.
-- Params:  start: of the period.
SELECT count() AS unread
FROM quarantine FINAL
WHERE quarantined_at >= {start:DateTime64(3, 'UTC')}
