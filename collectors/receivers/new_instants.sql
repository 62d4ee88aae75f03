-- One row: an instant of a target in [first_at, last_at] for which these pushes have a point that is not assembled yet.
SELECT DISTINCT ts
FROM pushed_points
WHERE sender = {sender:String} AND target = {target:String}
    AND ts >= {first_at:DateTime64(3, 'UTC')} AND ts <= {last_at:DateTime64(3, 'UTC')}
    AND has({pushes:Array(UInt64)}, push)
    AND (ts, name, labels) NOT IN
    (
        SELECT ts, name, labels
        FROM pushed_points
        WHERE sender = {sender:String} AND target = {target:String}
            AND ts >= {first_at:DateTime64(3, 'UTC')} AND ts <= {last_at:DateTime64(3, 'UTC')}
            AND (ts, push) IN
            (
                SELECT ts, push
                FROM pushed_instants
                WHERE assembled AND sender = {sender:String} AND target = {target:String}
                    AND ts >= {first_at:DateTime64(3, 'UTC')} AND ts <= {last_at:DateTime64(3, 'UTC')}
            )
    )
