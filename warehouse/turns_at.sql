-- One row: a turn at something that is held or waited for, in the order of asking.   signs: of life, so far.
-- Parameters: at; lease_ms: how long after its last renewal a turn expires.
SELECT holder, any(who) AS who, any(alone) AS alone, max(state) = 'has' AS has, count() AS signs
FROM turns
WHERE at = {at:String}
GROUP BY holder
HAVING max(state) < 'over' AND max(seen) > subtractMilliseconds(now64(3, 'UTC'), {lease_ms:UInt32})
ORDER BY min(seen), holder
