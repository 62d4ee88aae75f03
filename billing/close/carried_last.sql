-- One row: what the last close left to the next; none where no close has left anything.
SELECT run, closed_until, read_at, horizon, rules, prices, facts, hours, allocations,
    `months.month` AS names, `months.parts` AS parts, `months.fingerprint` AS fingerprints
FROM close_carried
ORDER BY run DESC
LIMIT 1
