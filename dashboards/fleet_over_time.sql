-- One row: a day or hour of the billing zone in which something is closed, oldest first.
-- Units: GPU-hours; hours_closed: closed hours in the bucket (a bucket that is not complete has fewer).
-- Parameters: start, end DateTime64(3) (UTC, [start, end)); zone String (IANA name); grain String ('day' | 'hour')
SELECT
    dateTrunc({grain:String}, hour, {zone:String}) AS bucket,
    uniqExact(hour) AS hours_closed,
    sum(toFloat64(used_unit_ms) / (device_units * 3600000)) AS used,
    sum(toFloat64(idle_unit_ms) / (device_units * 3600000)) AS idle,
    sum(unmetered_unit_ms / (device_units * 3600000)) AS unmetered,
    sum(unallocated_unit_ms / (device_units * 3600000)) AS unallocated,
    sum(unavailable_unit_ms / (device_units * 3600000)) AS unavailable
FROM ledger
WHERE hour >= {start:DateTime64(3,'UTC')} AND hour < {end:DateTime64(3,'UTC')}
GROUP BY bucket
ORDER BY bucket
