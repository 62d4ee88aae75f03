-- One row: when the first of the sessions began that held something in a period, as any close has booked them so far.
-- Params:  start, end = [start, end).
-- Reads:   entries of all runs: `allocations` says what the last close found, which may be another session's life by now.
SELECT minOrNull(charge_period_start) AS first
FROM ledger_entries
WHERE (cluster, allocation_id) IN
(
    SELECT cluster, allocation_id
    FROM ledger_entries
    WHERE allocation_id != ''
        AND hour > {start:DateTime64(3, 'UTC')} - INTERVAL 1 HOUR AND hour < {end:DateTime64(3, 'UTC')}
)
