-- One row: a day or hour of the billing zone of one device, oldest first; columns as the overview's over_time.sql.
-- Parameters: device String; grain String ('day' | 'hour'); zone String; those of ({ledger})
SELECT
    dateTrunc({grain:String}, hour, {zone:String}) AS bucket,
    uniqExact(hour) AS hours_closed,
    sum(used) AS used,
    sum(idle) AS idle,
    sum(unmetered) AS unmetered,
    sum(unallocated) AS unallocated,
    sum(unavailable) AS unavailable
FROM ({ledger})
WHERE device_id = {device:String}
GROUP BY bucket
ORDER BY bucket
