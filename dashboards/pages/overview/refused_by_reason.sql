-- One row: a reason why claims that touch the period were kept out of the books, and how many.
-- Parameters: start, end DateTime64(3) (UTC, [start, end)); tenants Array(String), empty: all
SELECT reason, count() AS records
FROM refused_claims
WHERE start_at < {end:DateTime64(3,'UTC')} AND ifNull(end_at, toDateTime64('2200-01-01', 3, 'UTC')) >= {start:DateTime64(3,'UTC')}
    AND (empty({tenants:Array(String)}) OR has({tenants:Array(String)}, tenant))
GROUP BY reason
ORDER BY records DESC, reason
