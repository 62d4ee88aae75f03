-- One row: a tenant that owes something for a month: it held something in the closed hours, or has a credit. Those with a
-- commitment alone are not among them.
-- Params:  start, end = [start, end); month, like 2026-10.
SELECT tenant
FROM ledger
WHERE tenant != '' AND allocation_id != ''
    AND charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
GROUP BY tenant
UNION DISTINCT
SELECT tenant FROM credits FINAL WHERE month = {month:String} AND tenant != ''
