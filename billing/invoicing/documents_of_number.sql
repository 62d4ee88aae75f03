-- One row: a document stored under a number. More than one means that two processes took it at the same time.
-- Params:  issuer, year, sequence.
SELECT document
FROM invoices
WHERE issuer = {issuer:String} AND year = {year:UInt16} AND sequence = {sequence:UInt32}
