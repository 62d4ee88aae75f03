-- One row: how many hours of (since, until] were measured for interference, and a number that is another one as soon as one of
-- them is measured anew (version).
-- Parameters: since, until DateTime64(3) (UTC)
SELECT count() AS hours, groupBitXor(cityHash64(hour, newest)) AS version
FROM
(
    SELECT hour, max(run) AS newest
    FROM interference_hours
    WHERE hour > {since:DateTime64(3,'UTC')} - INTERVAL 1 HOUR AND hour < {until:DateTime64(3,'UTC')}
    GROUP BY hour
)
