-- One row: a series at an instant, see the view slo_status.
-- Params:  at; all_tenants = 1, or tenant = the only one.
SELECT
    objective, definition, kind, unit, cluster, tenant, subject, owner, target, window_seconds, measured_until, good, bad,
    missing, dark_seconds, sli, coverage, budget_left, state, burn_5m, burn_30m, burn_1h, burn_6h, burn_3d, limit_fast,
    limit_medium, limit_slow, burning
FROM slo_status(at = {at:DateTime64(3, 'UTC')})
WHERE {all_tenants:UInt8} = 1 OR tenant = {tenant:String}
ORDER BY budget_left ASC NULLS LAST, objective, cluster, tenant, subject
