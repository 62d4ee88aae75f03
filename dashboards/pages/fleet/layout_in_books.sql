-- One row: an allocation of a share of a device in an hour of the books, and whose they say that it is.
-- Parameters: hour DateTime64(3) (UTC); tenants, projects, queues Array(String), empty: all
SELECT cluster, device_id, allocation_id, any(l.tenant) AS tenant
FROM ledger AS l
WHERE hour = {hour:DateTime64(3,'UTC')} AND allocation_id != '' AND device_units > 1
    AND (empty({tenants:Array(String)}) OR has({tenants:Array(String)}, l.tenant))
    AND (empty({projects:Array(String)}) OR has({projects:Array(String)}, l.project))
    AND (empty({queues:Array(String)}) OR has({queues:Array(String)}, l.queue))
GROUP BY cluster, device_id, allocation_id
