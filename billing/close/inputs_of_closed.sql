-- One row: a closed hour (since the epoch) among those examined, and the fingerprint of the inputs it was closed with.
-- Params:  firsts, nexts: the hours to examine, in runs [first, next).
SELECT toUInt32(intDiv(toUnixTimestamp(hour), 3600)) AS hour, argMax(inputs, checked_by) AS inputs
FROM (SELECT * FROM closed_hours WHERE arrayExists(
    (first, next) -> toUnixTimestamp(closed_hours.hour) >= toInt64(first) * 3600 AND toUnixTimestamp(closed_hours.hour) < toInt64(next) * 3600,
    {firsts:Array(UInt32)}, {nexts:Array(UInt32)}))
GROUP BY hour
