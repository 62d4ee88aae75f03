-- One row: what the last close left to the next; none where no close has left anything.
SELECT run, closed_until, read_at, horizon, rules, prices, facts, hours, allocations
FROM close_carried
ORDER BY run DESC
LIMIT 1
