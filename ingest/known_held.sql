-- One row: a row of a sender that was held before, and what became of it.
-- Parameters: sender, record_type String, hashes Array(String).
SELECT toString(hash) AS hash, argMax(state, revision) AS state
FROM held_rows
WHERE sender = {sender:String} AND record_type = {record_type:String} AND hash IN {hashes:Array(String)}
GROUP BY hash
