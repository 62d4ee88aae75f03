-- One row: the content of a row that is to be appended, in their order.
-- $$typed: the columns in the table's types.   $$content: as an expression of those.   $$staged: the rows.
SELECT $content AS content
FROM (SELECT chain_place, $typed FROM $staged)
ORDER BY chain_place
