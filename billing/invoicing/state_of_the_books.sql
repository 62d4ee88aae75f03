-- One row: until when the books are closed (1970: they are not), and the rate card of the last close ('': none).
SELECT
    greatest(
        (SELECT toDateTime64(if(count() = 0, toDateTime(0, 'UTC'), max(hour) + INTERVAL 1 HOUR), 3, 'UTC') FROM closed_hours),
        toDateTime64(max(closed_until), 3, 'UTC')
    ) AS closed_until,
    argMax(rate_card, run) AS rate_card,
    count() AS closes
FROM close_runs
