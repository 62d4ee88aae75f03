-- One row: a workload that held a share of the device in the period, the newest first.
-- Units: GPU-hours; list_cost exact, NULL: no price is known.
-- Parameters: device String; those of ({days})
SELECT
    workload_id, any(tenant) AS tenant, any(project) AS project, any(partition_profile) AS partition_profile,
    max(units) AS units, max(device_units) AS device_units, min(charge_period_start) AS first_at,
    max(charge_period_end) AS last_at, sum(l.used) AS used, sum(l.idle) AS idle, sum(l.unmetered) AS unmetered,
    sum(l.list_cost) AS list_cost
FROM ({days}) AS l
WHERE is_held AND device_id = {device:String}
GROUP BY workload_id
ORDER BY first_at DESC, workload_id
LIMIT 500
