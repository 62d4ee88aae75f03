-- One row: a day or hour of the billing zone in which something was held or free, oldest first. Units: GPU-hours.
-- Parameters: grain String ('day' | 'hour'); device String, empty: all; those of ({days})
SELECT
    if({grain:String} = 'hour', hour, day) AS step, step AS at,
    sum(used) AS used,
    sum(idle) AS idle,
    sum(unmetered) AS unmetered,
    sum(unallocated) AS unallocated,
    sum(unavailable) AS unavailable
FROM ({days})
WHERE {device:String} = '' OR device_id = {device:String}
GROUP BY step
ORDER BY step
