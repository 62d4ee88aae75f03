-- One row: something that was done, the newest first, also within one millisecond; in_all: how many there are of what was looked for.
-- Parameters: find String (a part of who, what, on what or why; '' : all); most UInt32
SELECT at, actor, action, object, reason, inputs, count() OVER () AS in_all
FROM (SELECT * FROM audit FINAL)
WHERE {find:String} = '' OR positionCaseInsensitiveUTF8(concat(actor, ' ', action, ' ', object, ' ', reason), {find:String}) > 0
ORDER BY at DESC, position DESC, action, object
LIMIT {most:UInt32}
