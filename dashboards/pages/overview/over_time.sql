-- One row: a day or hour of the billing zone in which something is closed, oldest first.
-- Units: GPU-hours; hours_closed: closed hours in the bucket (a bucket that is not complete has fewer).
-- Parameters: zone String (IANA name); grain String ('day' | 'hour'); those of ({ledger})
SELECT
    dateTrunc({grain:String}, hour, {zone:String}) AS bucket,
    uniqExact(hour) AS hours_closed,
    sum(used) AS used,
    sum(idle) AS idle,
    sum(unmetered) AS unmetered,
    sum(unallocated) AS unallocated,
    sum(unavailable) AS unavailable
FROM ({ledger})
GROUP BY bucket
ORDER BY bucket
