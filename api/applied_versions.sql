-- One row: an application of a file that people state, the oldest first. rules: entries of its lists.
-- Parameters: table, column Identifier; keys Array(String), the lists' names in the file
SELECT version, applied_at, author, reason, toUInt32(arraySum(key -> JSONLength({column:Identifier}, key), {keys:Array(String)})) AS rules
FROM {table:Identifier} FINAL
ORDER BY sequence
