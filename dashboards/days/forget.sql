-- Sums that were never finished, or that newer ones replaced.
ALTER TABLE ledger_days DELETE
WHERE written_at < now('UTC') - INTERVAL 1 DAY
    AND (zone, day, version) NOT IN (SELECT zone, day, version FROM summed_days FINAL)
