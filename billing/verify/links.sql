-- One row: a link of a table's chain, with the digest computed anew.
-- $$table; $$name (the column that names a row); $$content (an expression).
SELECT
    '$table' AS chain, position, previous, digest, toString($name) AS name,
    lower(hex(SHA256(concat(previous, '\n', $content)))) AS own
FROM $table
