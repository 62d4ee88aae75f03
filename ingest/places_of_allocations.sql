-- One row: an allocation's device, or GPUs of a node ('' = the device was not reported).
-- Shape:   backwards_ms = its start, ms since the epoch, if all its ends are before that, so that the books refuse it until
--          another end is reported; else null.
-- Parameters: allocations Array(String).
WITH
    event IN ('started', 'resized', 'resumed') AS placing,
    event IN ('preempted', 'finished', 'failed', 'cancelled', 'rejected') AS ending
SELECT cluster, allocation_id, arrayJoin(places).1 AS node, arrayJoin(places).2 AS device_id,
    if(ends > 0 AND last_end < first_start, first_start, NULL) AS backwards_ms
FROM
(
    SELECT cluster, allocation_id,
        groupUniqArrayIf((toString(events.node), toString(events.device_id)), placing) AS places,
        minIf(toUnixTimestamp64Milli(ts), placing) AS first_start,
        maxIf(toUnixTimestamp64Milli(ts), ending) AS last_end,
        countIf(ending) AS ends
    FROM events
    WHERE allocation_id IN {allocations:Array(String)}
    GROUP BY cluster, allocation_id
)
