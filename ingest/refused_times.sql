-- One row: an instant of which a person has refused a row of a sender, alone or with others (as in known_held.sql).
-- Parameters: sender, record_type String.
SELECT DISTINCT toUnixTimestamp64Milli(ts) AS ms
FROM held_rows FINAL
WHERE has(splitByString(', ', toString(sender)), {sender:String}) AND record_type = {record_type:String} AND state = 'refused'
