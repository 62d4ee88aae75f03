-- One row: the content, as text, of a row to be appended; in the order of the rows.
-- $$typed: the columns in the table's types.   $$content: as an expression of those.   $$staged: the rows.
SELECT $content AS content
FROM (SELECT chain_place, $typed FROM $staged)
ORDER BY chain_place
