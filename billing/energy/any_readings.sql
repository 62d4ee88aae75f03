-- One row: some sample that can cover the hours says something of power or memory; none if no sample does.
-- Reads:   until the first; where there are none, three columns that are empty.
-- Params:  first, last = hours since the epoch.
SELECT 1 AS found
FROM samples
WHERE ts > toDateTime64(toDateTime({first:UInt32} * 3600, 'UTC'), 3, 'UTC')
    AND ts <= toDateTime64(toDateTime(({last:UInt32} + 2) * 3600, 'UTC'), 3, 'UTC')
    AND (energy_joules IS NOT NULL OR power_watts IS NOT NULL OR memory_used_bytes IS NOT NULL)
LIMIT 1
