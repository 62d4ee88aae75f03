-- One row: a document stored under a number, in their order. More than one of a number: two processes took it.
-- Params:  issuer, year; first, last = the numbers, both included.
SELECT document
FROM invoices
WHERE issuer = {issuer:String} AND year = {year:UInt16} AND sequence BETWEEN {first:UInt32} AND {last:UInt32}
ORDER BY sequence
