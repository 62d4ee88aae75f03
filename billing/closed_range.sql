-- One row: when the closed hours start and end ([start, end)), and how many there are; 1970 when hours = 0.
-- Traps:   an hour that later facts have emptied (inputs and content are 0) is as one in which there never was a fact.
SELECT
    toDateTime64(min(hour), 3, 'UTC') AS start,
    toDateTime64(max(hour) + INTERVAL 1 HOUR, 3, 'UTC') AS end,
    count() AS hours
FROM closed_hours FINAL
WHERE inputs != 0 OR content != 0
