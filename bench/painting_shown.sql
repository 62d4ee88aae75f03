-- One row: a tenant, a workload, a device and an invoice to look at.
SELECT any(tenant) AS tenant, any(workload_id) AS workload, any(device_id) AS device,
    (SELECT any(number) FROM v_invoices) AS invoice
FROM (SELECT * FROM v_usage_hourly WHERE workload_id != '' ORDER BY hour LIMIT 1) FORMAT JSONEachRow
