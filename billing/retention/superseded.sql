-- One row: an hour's entries of a close that a later close has replaced, and how many they are.
-- Params:  last: what replaced them was written by this close or before.   seen: closes whose books an issued document
--          shows; what these may have shown is left out.
WITH
    current AS
    (
        SELECT hour, argMax(run, checked_by) AS in_force FROM closed_hours GROUP BY hour
    )
SELECT concat(toString(toUnixTimestamp(written.hour)), '/', toString(written.run)) AS written_by, toInt64(sum(written.rows)) AS rows
FROM
(
    SELECT hour, run, count() AS rows FROM ledger_entries GROUP BY hour, run
    UNION ALL
    SELECT hour, run, count() AS rows FROM energy_entries GROUP BY hour, run
) AS written
INNER JOIN current ON written.hour = current.hour
WHERE written.run < current.in_force AND current.in_force <= {last:UInt64}
    AND NOT arrayExists(one -> one >= written.run AND one < current.in_force, {seen:Array(UInt64)})
GROUP BY written_by
ORDER BY written_by
