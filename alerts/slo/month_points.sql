-- One row: what a series had of each kind within [start, end).
-- Shape:   measured_seconds: how much of the span was measured at all.
-- Params:  start, end, on whole five minutes; definitions.
SELECT
    s.definition AS definition, tenant, subject,
    sum(s.good) AS good, sum(s.bad) AS bad, sum(s.missing) AS missing, sum(s.dark_seconds) AS dark_seconds,
    any(m.measured_seconds) AS measured_seconds
FROM slo_series AS s
LEFT JOIN
(
    SELECT
        hours.definition AS definition,
        sum(greatest(0, dateDiff('second',
            greatest(toDateTime({start:DateTime64(3, 'UTC')}, 'UTC'), hours.hour),
            least(toDateTime({end:DateTime64(3, 'UTC')}, 'UTC'), hours.hour + INTERVAL 1 HOUR, toDateTime(until.until, 'UTC'))))) AS measured_seconds
    FROM (SELECT DISTINCT definition, hour FROM slo_hours) AS hours
    INNER JOIN (SELECT definition, argMax(until, run) AS until FROM slo_measured GROUP BY definition) AS until
        ON hours.definition = until.definition
    GROUP BY hours.definition
) AS m ON s.definition = m.definition
WHERE has({definitions:Array(String)}, s.definition)
    AND s.at > {start:DateTime64(3, 'UTC')} AND s.at <= {end:DateTime64(3, 'UTC')}
GROUP BY definition, tenant, subject
ORDER BY definition, tenant, subject
