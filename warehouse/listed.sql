-- One row: a value of a long list, in place of it.   $$source: a table with the column `value`.
SELECT value FROM $source
