-- A row for each sender and record type of which a person has refused rows: their instants. A row that several senders
-- sent together (as in known_held.sql) is each one's.
SELECT
    arrayJoin(splitByString(', ', toString(sender))) AS one_sender,
    toString(record_type) AS record,
    groupUniqArray(toUnixTimestamp64Milli(ts)) AS times
FROM held_rows FINAL
WHERE state = 'refused'
GROUP BY one_sender, record
