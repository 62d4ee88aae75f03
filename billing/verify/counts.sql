-- One row: how many hours, and hours of devices, the ledger has in a period.   Params:  start, end = [start, end).
SELECT uniqExact(hour) AS hours, uniqExact(hour, cluster, device_id) AS device_hours
FROM ledger
WHERE hour >= {start:DateTime64(3, 'UTC')} AND hour < {end:DateTime64(3, 'UTC')}
