-- One row: the last entry (SQLite) by which capacity or quota certainly came free.
-- $$kinds: of entries, $$endings: of jobs, by which it does.
SELECT sequence
FROM entries
WHERE kind IN $kinds OR (kind = 'end' AND json_extract(body, '$$.ending') IN $endings)
ORDER BY sequence DESC
LIMIT 1
