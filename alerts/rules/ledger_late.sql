-- One row: the ledger, and how far it is behind the facts; none where there is no event yet.
-- Units:   value: seconds since the end of the last closed hour; where none is closed, since the first event.
-- Params:  at.
WITH
    (SELECT maxOrNull(hour) FROM closed_hours WHERE hour < {at:DateTime64(3, 'UTC')}) AS last_hour,
    (SELECT minOrNull(ts) FROM events WHERE ts <= {at:DateTime64(3, 'UTC')}) AS first_event
SELECT
    'ledger' AS books,
    ifNull(toDateTime64(last_hour, 3, 'UTC') + INTERVAL 1 HOUR, first_event) AS known_until,
    last_hour IS NULL AS never_closed,
    dateDiff('second', known_until, {at:DateTime64(3, 'UTC')}) AS value
WHERE first_event IS NOT NULL
