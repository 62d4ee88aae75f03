-- One row: a node with two devices or more, all of which are unavailable, and for how long.
-- Units:   value: seconds since the last of them went.
-- Params:  at.
SELECT
    cluster, node,
    count() AS devices,
    max(since) AS unavailable_since,
    dateDiff('second', unavailable_since, {at:DateTime64(3, 'UTC')}) AS value,
    any(pool) AS pool
FROM devices_at(at = {at:DateTime64(3, 'UTC')})
WHERE node != ''
GROUP BY cluster, node
HAVING devices >= 2 AND countIf(state = 'unavailable') = devices
