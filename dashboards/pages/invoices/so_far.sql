-- One row: what was held so far in a month, by currency: billed cost, exact, and how many GPU-hours have no price.
-- Parameters: those of ({days})
SELECT billing_currency AS currency, sum(l.billed_cost) AS cost, sumIf(l.allocated, l.billed_cost IS NULL) AS unpriced
FROM ({days}) AS l
WHERE is_held
GROUP BY currency
ORDER BY currency
