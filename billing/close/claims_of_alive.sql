-- One row: a claim of a close that looks at some allocations alone: of those as it settled it, else as it was published.
-- $$which: a condition that selects them (billing.close.stage.WHICH).   $$published: published_claims.sql.
SELECT cluster, allocation_id, start_ms, end_ms FROM {settled:Identifier} WHERE $which
UNION ALL
$published
WHERE allocation_hash NOT IN {alive:Identifier}
