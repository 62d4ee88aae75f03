-- One row: of the hours before closed_until (and not before an earlier row's), the last close that looked at them.
-- For other statements, which put it between parentheses.
SELECT 1 AS one, closed_until, latest.1 AS run, latest.2 AS rate_card, latest.3 AS ingest_cutoff
FROM
(
    SELECT closed_until, max(last) OVER (ORDER BY closed_until DESC ROWS UNBOUNDED PRECEDING) AS latest
    FROM (SELECT closed_until, max((run, rate_card, ingest_cutoff)) AS last FROM close_runs GROUP BY closed_until)
)
