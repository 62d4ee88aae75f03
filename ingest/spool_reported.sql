-- Adds what a finding reported to the losses that are reported (SQLite). ?1 batches, ?2 rows, ?3 reason, ?4 record.
UPDATE losses SET said_batches = said_batches + ?1, said_rows = said_rows + ?2 WHERE reason = ?3 AND record = ?4
