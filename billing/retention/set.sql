-- One row: what was set last, as JSON.
SELECT inputs
FROM audit FINAL
WHERE action = 'retention.set'
ORDER BY position DESC
LIMIT 1
