-- One row: a sender and record type of which a person refused rows, with the times of those rows. A row that several
-- senders sent together (as in known_held.sql) counts for each.
SELECT
    arrayJoin(splitByString(', ', toString(sender))) AS one_sender,
    toString(record_type) AS record,
    groupUniqArray(toUnixTimestamp64Milli(ts)) AS times
FROM held_rows FINAL
WHERE state = 'refused'
GROUP BY one_sender, record
