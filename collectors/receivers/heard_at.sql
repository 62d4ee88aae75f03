-- When something of a target came last, by the store's clock. NULL: the log has nothing of it any more.
SELECT maxOrNull(received_at) AS heard_at
FROM pushed_instants
WHERE sender = {sender:String} AND target = {target:String} AND NOT assembled
