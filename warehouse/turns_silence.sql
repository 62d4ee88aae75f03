-- One row: the longest time for which others saw no sign of life of a turn that is held, until now, in ms; 0: none is.
-- Params:  at: what it is a turn at; mine: the turn.
WITH arraySort(groupArray(toUnixTimestamp64Milli(seen))) AS signs
SELECT arrayMax(arrayDifference(arrayPushBack(signs, greatest(toUnixTimestamp64Milli(now64(3, 'UTC')), signs[-1])))) AS silence_ms
FROM turns
WHERE at = {at:String} AND holder = {mine:UUID} AND state = 'has'
