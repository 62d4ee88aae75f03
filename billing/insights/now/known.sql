-- One row: how far closes and alerts have come up to an instant of the clock; NULL: neither has been.
-- evaluated: until when alert rules were evaluated, which is the newest fact of anybody's then.   closed: the end of the last
-- closed hour.
-- Params:  clock.
SELECT
    (SELECT maxOrNull(hour) + INTERVAL 1 HOUR FROM closed_hours WHERE hour < {clock:DateTime64(3,'UTC')}) AS closed,
    (SELECT maxOrNull(evaluated_until) FROM alert_runs WHERE evaluated_until <= {clock:DateTime64(3,'UTC')}) AS evaluated
