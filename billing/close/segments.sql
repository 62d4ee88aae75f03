-- One row: a stretch [start_ms, end_ms) of one device and hour in which nothing changes: state, holders, price.
-- Units:   ms since the epoch; hour = hours since the epoch; active = (claim, units, hash of workload, hash of partition).
-- Params:  from_ms, to_ms = facts before and after cannot touch the hours in dirty;
--          cuts = further instants (ms) at which to cut: price changes, local midnights.
CREATE TABLE {segments:Identifier} ENGINE = Memory AS
WITH
    (SELECT min(hour) FROM {dirty:Identifier}) AS first_hour,
    (SELECT max(hour) FROM {dirty:Identifier}) AS last_hour,
    facts AS
    (
        SELECT device, start_ms, end_ms, state_id AS id, units, available, toUInt64(0) AS workload, toUInt64(0) AS part, true AS is_state
        FROM {states:Identifier}
        WHERE start_ms < {to_ms:Int64} AND end_ms > {from_ms:Int64}
        UNION ALL
        SELECT device, start_ms, end_ms, claim AS id, units, true AS available, cityHash64(workload_id) AS workload,
            if(partition_id = '', 0, cityHash64(partition_id)) AS part, false AS is_state
        FROM {settled:Identifier}
        WHERE start_ms < {to_ms:Int64} AND end_ms > {from_ms:Int64}
    ),
    cut AS
    (
        SELECT
            device,
            hour,
            groupArrayIf((since, until, id, units, available), is_state) AS states,
            arraySort(groupArrayIf((since, until, id, units, workload, part), NOT is_state)) AS claims,
            arraySort(arrayDistinct(arrayConcat(
                groupArray(since), groupArray(until), arrayFilter(x -> intDiv(x, 3600000) = hour, {cuts:Array(Int64)})))) AS points
        FROM
        (
            SELECT device, hour, id, units, available, workload, part, is_state,
                greatest(start_ms, toInt64(hour) * 3600000) AS since, least(end_ms, toInt64(hour + 1) * 3600000) AS until
            FROM facts
            ARRAY JOIN range(
                toUInt32(greatest(intDiv(start_ms, 3600000), first_hour)),
                toUInt32(least(intDiv(end_ms - 1, 3600000), last_hour) + 1)) AS hour
            WHERE hour IN (SELECT hour FROM {dirty:Identifier})
        )
        GROUP BY device, hour
        HAVING notEmpty(states)
    )
SELECT
    device,
    hour,
    stretch.1 AS start_ms,
    stretch.2 AS end_ms,
    arrayFirst(x -> x.1 <= start_ms AND start_ms < x.2, states) AS state,
    state.3 AS state_id,
    state.4 AS device_units,
    state.5 AS available,
    arrayMap(
        x -> (x.3, x.4, x.5, x.6),
        arrayFilter(x -> x.1 <= start_ms AND start_ms < x.2, claims)) AS active,
    arraySum(active.2) AS held_units
FROM cut
ARRAY JOIN arrayZip(arrayPopBack(points), arrayPopFront(points)) AS stretch
WHERE state.2 > 0
