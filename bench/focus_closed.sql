-- Closes the hours of focus_ledger.sql: {hours:UInt64} from {start:DateTime64(3, 'UTC')} on.
INSERT INTO closed_hours (hour, run, checked_by, inputs, content)
SELECT toDateTime({start:DateTime64(3, 'UTC')}, 'UTC') + toIntervalHour(number), 7, 7, 0, 0
FROM numbers({hours:UInt64})
