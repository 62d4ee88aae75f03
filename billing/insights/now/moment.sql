-- One row: the newest facts that have come up to an instant of the clock; NULL: none.
-- evaluated: until when alert rules were evaluated, which is the newest fact of anybody's then.   closed: the end of the last
-- closed hour, NULL: none.
-- Traps:   facts are looked for within a day before the newest of these two, so that no page reads a month of samples.
-- Params:  clock.
WITH
    (SELECT if(count() = 0, NULL, max(hour) + INTERVAL 1 HOUR) FROM closed_hours WHERE hour < {clock:DateTime64(3,'UTC')}) AS last_closed,
    (SELECT maxOrNull(evaluated_until) FROM alert_runs WHERE evaluated_until <= {clock:DateTime64(3,'UTC')}) AS last_evaluated,
    (
        SELECT greatest(ifNull(toDateTime64(last_closed, 3, 'UTC'), toDateTime64(86400, 3, 'UTC')),
            ifNull(last_evaluated, toDateTime64(86400, 3, 'UTC'))) - INTERVAL 1 DAY
    ) AS since
SELECT
    (SELECT maxOrNull(ts) FROM samples WHERE ts > since AND ts <= {clock:DateTime64(3,'UTC')}) AS samples,
    (SELECT maxOrNull(ts) FROM events WHERE ts > since AND ts <= {clock:DateTime64(3,'UTC')}) AS events,
    (SELECT maxOrNull(ts) FROM devices WHERE ts > since AND ts <= {clock:DateTime64(3,'UTC')}) AS devices,
    last_evaluated AS evaluated,
    last_closed AS closed
