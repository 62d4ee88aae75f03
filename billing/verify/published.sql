-- One row: a table that each close rewrites, and that is not as the last close, or the one before it, left it.
-- Reads:   the one before as well: a close is recorded just before its tables take their places.
-- $$found = billing/close/published.sql.
WITH
    recorded AS (SELECT run, close_runs.allocations AS allocations, close_runs.refused_claims AS refused_claims FROM close_runs ORDER BY run DESC LIMIT 2),
    found AS ($found)
SELECT 'allocations' AS table
FROM found
WHERE found.allocations NOT IN (SELECT allocations FROM recorded) AND (SELECT countIf(allocations IS NOT NULL) FROM recorded) > 0
UNION ALL
SELECT 'refused_claims' AS table
FROM found
WHERE found.refused_claims NOT IN (SELECT refused_claims FROM recorded) AND (SELECT countIf(refused_claims IS NOT NULL) FROM recorded) > 0
