-- One row: an application of a file that people state, the oldest first. rules: entries of its first list.
-- Parameters: table, column Identifier; key String, the list's name in the file
SELECT version, applied_at, author, reason, toUInt32(JSONLength({column:Identifier}, {key:String})) AS rules
FROM {table:Identifier} FINAL
ORDER BY sequence
