-- One row: how many claims on time in a period the last close refused.
-- Params:  start, end = [start, end).
-- Traps:   a claim that ends before it starts counts where it starts.
SELECT count() AS claims
FROM refused_claims
WHERE
    start_at < {end:DateTime64(3, 'UTC')}
    AND (start_at >= {start:DateTime64(3, 'UTC')} OR end_at IS NULL OR end_at > {start:DateTime64(3, 'UTC')})
