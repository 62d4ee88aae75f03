-- One row: a device as it was reported: the units it was ever said to have, and where it stood, from an instant on.
-- Shape:   nodes: where it ever stood; told: (ms since the epoch, node; '' = removed) of the last row until then and of all
--          later ones, in order. Where it was only said to be removed it never stood. Of two rows of one instant it stands.
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
