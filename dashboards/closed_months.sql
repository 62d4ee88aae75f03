-- One row: a month of the billing zone in which at least one hour is closed, oldest first.
-- hours: closed hours in it; first_hour, last_hour: start of the first and last of them (UTC).
-- Parameters: zone String (IANA name)
SELECT
    formatDateTime(hour, '%Y-%m', {zone:String}) AS month,
    count() AS hours,
    min(hour) AS first_hour,
    max(hour) AS last_hour
FROM closed_hours FINAL
WHERE has_facts
GROUP BY month
ORDER BY month
