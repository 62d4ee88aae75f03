-- One row: the ledger, and how far it is behind the facts; none where there is no event and no device yet.
-- Units:   value: seconds since the end of the last closed hour; where none is closed, since the first event,
--          at a site without events since its first device.
-- Params:  at.
WITH
    (SELECT maxOrNull(hour) FROM closed_hours WHERE hour < {at:DateTime64(3, 'UTC')}) AS last_hour,
    (SELECT minOrNull(ts) FROM events WHERE ts <= {at:DateTime64(3, 'UTC')}) AS first_event,
    (SELECT minOrNull(ts) FROM devices WHERE ts <= {at:DateTime64(3, 'UTC')}) AS first_device,
    ifNull(first_event, first_device) AS first_fact
SELECT
    'ledger' AS books,
    ifNull(toDateTime64(last_hour, 3, 'UTC') + INTERVAL 1 HOUR, first_fact) AS known_until,
    last_hour IS NULL AS never_closed,
    dateDiff('second', known_until, {at:DateTime64(3, 'UTC')}) AS value
WHERE first_fact IS NOT NULL
