-- One row: a day that was not summed as it is now, and the fingerprint of it as it is now, in order.
-- Parameters: zone String (IANA name)
SELECT day, content
FROM ({contents})
WHERE (day, content) NOT IN (SELECT day, content FROM summed_days FINAL WHERE zone = {zone:String})
ORDER BY day
