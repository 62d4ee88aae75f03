-- One row: a table that each close rewrites, and that is not as the last close, or the one before it, left it.
-- Reads:   the one before as well: a close is recorded just before its tables take their places.
-- Params:  allocations, refused_claims: the fingerprints of the tables (billing.close.published).
WITH
    recorded AS (SELECT run, allocations, refused_claims FROM close_runs ORDER BY run DESC LIMIT 2)
SELECT 'allocations' AS table
WHERE {allocations:UInt64} NOT IN (SELECT allocations FROM recorded) AND (SELECT countIf(allocations IS NOT NULL) FROM recorded) > 0
UNION ALL
SELECT 'refused_claims' AS table
WHERE {refused_claims:UInt64} NOT IN (SELECT refused_claims FROM recorded) AND (SELECT countIf(refused_claims IS NOT NULL) FROM recorded) > 0
