-- One row: a reason for which rows of a record type are in quarantine, how many there are, and the newest of them as
-- (source, row, detail, raw).
-- Parameter: examples UInt8, how many of the newest.
SELECT
    record_type,
    reason,
    count() AS rows,
    groupArraySorted({examples:UInt8})((-toUnixTimestamp64Milli(quarantined_at), source, row, detail, raw)) AS newest
FROM quarantine FINAL
GROUP BY record_type, reason
ORDER BY record_type, rows DESC, reason
