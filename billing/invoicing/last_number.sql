-- One row: the last number that an issuer used in a year (0: none), and who else uses the prefix in it ('': nobody).
-- Params:  issuer, year; prefix = as in number.
SELECT
    maxIf(sequence, issuer = {issuer:String}) AS sequence,
    anyIf(issuer, issuer != {issuer:String} AND startsWith(number, {prefix:String})) AS rival
FROM invoices
WHERE year = {year:UInt16}
