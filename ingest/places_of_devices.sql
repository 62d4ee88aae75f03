-- One row: a device with all unit counts that it was ever reported with, and its nodes from an instant on.
-- Shape:   nodes: all it was ever on; told: (ms since the epoch, node; '' = removed) of the last row up to the instant and
--          of all later ones, in order. A row that only removes it adds no node. Of two rows of one instant, the one that
--          does not remove it counts.
-- Parameters: devices Array(String); until DateTime64(3).
WITH {until:DateTime64(3, 'UTC')} AS until
SELECT
    cluster,
    device_id,
    groupUniqArrayIf(node, state != 'removed') AS nodes,
    groupUniqArrayIf(units, state != 'removed') AS units,
    argMaxIf((toUnixTimestamp64Milli(ts), if(state = 'removed', '', node)), (ts, state != 'removed'), ts <= until) AS stood,
    arraySort(arrayConcat(
        if(stood.1 = 0, [], [stood]),
        groupArrayIf((toUnixTimestamp64Milli(ts), if(state = 'removed', '', node)), ts > until))) AS reported
FROM devices
WHERE device_id IN {devices:Array(String)}
GROUP BY cluster, device_id
