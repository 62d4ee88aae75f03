-- One row: when the last point of a target arrived, by the store's clock. NULL: the log has none of its points any more.
SELECT maxOrNull(received_at) AS heard_at
FROM pushed_instants
WHERE sender = {sender:String} AND target = {target:String} AND NOT assembled
