-- One row: a held row in its current state, the oldest first.
-- Parameters: sender, record_type, reason, subject: only these; empty: any.   state: held, or the decision.
SELECT sender, record_type, toString(hash) AS hash, source, reason, subject, detail, ts, raw, held_at, state, push,
    decided_at, decided_by, why
FROM held_rows FINAL
WHERE state = {state:String} AND ({push:String} = '' OR push = {push:String})
    AND ({sender:String} = '' OR sender = {sender:String}) AND ({record_type:String} = '' OR record_type = {record_type:String})
    AND ({reason:String} = '' OR reason = {reason:String}) AND ({subject:String} = '' OR subject = {subject:String})
ORDER BY held_at, ts, hash
