-- One row: something that is wrong with the list of closed hours.
-- Reads:   hours stay closed, so that the greatest number is the last one.
-- Params:  most = rows.
SELECT at, reason
FROM
(
    SELECT hour AS at, 'its row is not what the close wrote' AS reason
    FROM closed_hours
    WHERE seal != cityHash64(hour, run, checked_by, inputs, content)
    UNION ALL
    SELECT hour AS at, 'a close wrote it twice' AS reason
    FROM closed_hours
    GROUP BY hour, checked_by
    HAVING count() > 1
    UNION ALL
    SELECT max(hour) AS at, concat(toString(uniqExact(hour)), ' hours are closed, the last close left ', toString(left_closed)) AS reason
    FROM closed_hours
    CROSS JOIN (SELECT max(run) AS last_run, max(hours_closed) AS left_closed FROM close_runs) AS last
    GROUP BY left_closed, last_run
    HAVING max(checked_by) <= last_run AND uniqExact(hour) != left_closed
    UNION ALL
    SELECT max(closed_until) AS at, concat('no hour is closed, the last close left ', toString(max(hours_closed))) AS reason
    FROM close_runs
    WHERE (SELECT count() FROM closed_hours) = 0
    HAVING max(hours_closed) > 0
)
ORDER BY at
LIMIT {most:UInt32}
