-- One row: a month of the billing zone in which at least one hour is closed, oldest first.
-- hours: closed hours in it; first_hour, last_hour: start of the first and last of them (UTC).
-- Traps: an hour that later facts have emptied (inputs and content are 0) is as one in which there never was a fact.
-- Parameters: zone String (IANA name)
SELECT
    formatDateTime(hour, '%Y-%m', {zone:String}) AS month,
    count() AS hours,
    min(hour) AS first_hour,
    max(hour) AS last_hour
FROM closed_hours FINAL
WHERE inputs != 0 OR content != 0
GROUP BY month
ORDER BY month
