-- One row: a tenant that owes something for a month and is not billed: it held something in the closed hours, or has a
-- credit. Those with a commitment alone are not among them.
-- Params:  start, end = [start, end); month, like 2026-10; billed = tenants to leave out. Where that is all of them, no
--          other column is read.
SELECT tenant
FROM ledger
WHERE tenant != '' AND tenant NOT IN {billed:Array(String)} AND allocation_id != ''
    AND hour >= toDateTime({start:DateTime64(3, 'UTC')}, 'UTC') - INTERVAL 1 HOUR AND hour < toDateTime({end:DateTime64(3, 'UTC')}, 'UTC') + INTERVAL 1 HOUR
    AND charge_period_start >= {start:DateTime64(3, 'UTC')} AND charge_period_start < {end:DateTime64(3, 'UTC')}
GROUP BY tenant
UNION DISTINCT
SELECT tenant FROM credits FINAL WHERE month = {month:String} AND tenant != '' AND tenant NOT IN {billed:Array(String)}
