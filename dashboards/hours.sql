-- One row: an entry of the ledger in a period.   Parameters: start, end DateTime64(3) (UTC, [start, end))
SELECT *, allocation_id != '' AS is_held
FROM ledger
WHERE hour > {start:DateTime64(3,'UTC')} - INTERVAL 1 HOUR AND hour < {end:DateTime64(3,'UTC')}
    AND charge_period_start >= {start:DateTime64(3,'UTC')} AND charge_period_start < {end:DateTime64(3,'UTC')}
