-- One row: when the closed hours start and end ([start, end)), and how many there are; 1970 when hours = 0.
SELECT
    toDateTime64(min(hour), 3, 'UTC') AS start,
    toDateTime64(max(hour) + INTERVAL 1 HOUR, 3, 'UTC') AS end,
    count() AS hours
FROM closed_hours FINAL
WHERE has_facts
