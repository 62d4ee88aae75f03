-- One row: a point of a target in [first_at, last_at], in order of time, without duplicates. If a series has two values at
-- one instant, the smaller one counts: the choice must not depend on which came first.
SELECT ts, name, labels, value, stale
FROM pushed_points
WHERE sender = {sender:String} AND target = {target:String}
    AND ts >= {first_at:DateTime64(3, 'UTC')} AND ts <= {last_at:DateTime64(3, 'UTC')}
ORDER BY ts, name, labels, stale, value
LIMIT 1 BY ts, name, labels
