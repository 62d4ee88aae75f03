-- One row: a day (UTC) whose samples were removed, or were about to be; the last time that this was noted.
SELECT
    toDateTime64(JSONExtractString(inputs, 'day'), 3, 'UTC') AS day,
    max(audit.at) AS removed_at,
    argMax(actor, audit.at) AS by,
    argMax(JSONExtractUInt(inputs, 'kept'), audit.at) AS kept
FROM audit FINAL
WHERE action = 'retention.remove'
GROUP BY day
ORDER BY day
