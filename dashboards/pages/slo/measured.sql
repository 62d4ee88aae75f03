-- One row: how much of (since, until] is known of who disturbed whom.
-- hours: that were looked at at all; windows: of a workload beside others; known: those of which it is known.
-- Parameters: since, until DateTime64(3) (UTC)
SELECT
    (
        SELECT uniqExact(hour) FROM interference_hours
        WHERE hour > {since:DateTime64(3,'UTC')} - INTERVAL 1 HOUR AND hour < {until:DateTime64(3,'UTC')}
    ) AS hours,
    countIf(state = 'shared') AS windows,
    countIf(state = 'shared' AND disturbed IS NOT NULL) AS known
FROM interference
WHERE at > toDateTime({since:DateTime64(3,'UTC')}, 'UTC') AND at <= toDateTime({until:DateTime64(3,'UTC')}, 'UTC')
