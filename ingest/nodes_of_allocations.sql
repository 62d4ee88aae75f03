-- One row: an allocation that was reported before, with the nodes and devices that it was reported on.
-- Parameters: allocations Array(String).
SELECT
    cluster,
    allocation_id,
    groupUniqArrayIf(events.node, events.node != '') AS nodes,
    groupUniqArrayIf(events.device_id, events.node = '' AND events.device_id != '') AS devices
FROM events
WHERE allocation_id IN {allocations:Array(String)}
GROUP BY cluster, allocation_id
