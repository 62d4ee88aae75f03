-- One row: a row of a sender, or of one of several (`n1, n2`: their rows were written together), that was held before, and
-- its state.
-- Traps:   a refusal applies to the senders of that row; the same row from anybody else is judged anew.
-- Parameters: sender, record_type String, hashes Array(String).
WITH splitByString(', ', toString(sender)) AS held_of, splitByString(', ', {sender:String}) AS asked
SELECT toString(hash) AS hash, argMax(held_rows.state, (held_rows.state = 'accepted', revision)) AS state
FROM held_rows FINAL
WHERE record_type = {record_type:String} AND hash IN {hashes:Array(String)}
    AND hasAny(held_of, asked) AND (held_rows.state != 'refused' OR hasAll(held_of, asked))
GROUP BY hash
