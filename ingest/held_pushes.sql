-- One row: a held push: rows of one sender, record type, reason and subject that are held, or were decided, together.
-- Shape:   content: hash of its rows, which changes with every row that joins.
SELECT
    sender, record_type, reason, subject, push, state,
    count() AS rows,
    min(ts) AS first_at,
    max(ts) AS last_at,
    min(held_at) AS held_since,
    max(held_at) AS held_until,
    argMin(detail, (ts, hash)) AS detail,
    any(decided_at) AS decided_at,
    any(decided_by) AS decided_by,
    any(why) AS why,
    lower(substring(hex(SHA256(arrayStringConcat(arraySort(groupArray(toString(hash)))))), 1, 16)) AS content
FROM held_rows FINAL
WHERE {state:String} = '' OR state = {state:String}
GROUP BY sender, record_type, reason, subject, push, state
ORDER BY held_since, sender, record_type, reason, subject, push
