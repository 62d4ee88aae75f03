-- One row: a day (UTC) of samples of which all came until a date.
-- Params:  until.
SELECT toDateTime64(toStartOfDay(ts), 3, 'UTC') AS day
FROM samples
GROUP BY day
HAVING max(ingested_on) <= {until:Date}
ORDER BY day
