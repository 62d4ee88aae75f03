-- One row: the rate card and mapping versions that the last close used, and the fingerprints of what it published.
SELECT
    argMax(rate_card, run) AS card,
    argMax(tenant_mapping, run) AS mapping,
    argMax(tuple(close_runs.allocations), run).1 AS allocations,
    argMax(tuple(close_runs.refused_claims), run).1 AS refused_claims
FROM close_runs
