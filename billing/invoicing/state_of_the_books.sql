-- One row: until when the books are closed (1970: they are not), the last run that closed an hour, which run closed each
-- hour last (a fingerprint), and the rate card of the last close ('': none).
SELECT
    greatest(
        (SELECT toDateTime64(if(count() = 0, toDateTime(0, 'UTC'), max(hour) + INTERVAL 1 HOUR), 3, 'UTC') FROM closed_hours),
        toDateTime64(max(closed_until), 3, 'UTC')
    ) AS closed_until,
    toString((SELECT max(checked_by) FROM closed_hours)) AS last_run,
    (
        SELECT sum(cityHash64(hour, last)) FROM (SELECT hour, max(checked_by) AS last FROM closed_hours GROUP BY hour)
    ) AS version,
    argMax(rate_card, run) AS rate_card,
    count() AS closes
FROM close_runs
