-- One row: a reason why records never came in (a record that cannot be read has no reliable time, so: of any time).
SELECT record_type, reason, count() AS records
FROM quarantine FINAL
GROUP BY record_type, reason
ORDER BY records DESC, record_type, reason
