-- One row: a stretch [since, until) of one device in which nothing changes: state, holders, price; of one shift at most.
-- Units:   ms since the epoch; shift = shifts since the epoch; active = (claim, units, hash of workload, hash of partition).
-- Shape:   of all shifts that have an hour in dirty, so it may have hours that are not. is_whole: one holder has all of it.
-- Params:  from_ms, to_ms = facts before and after cannot touch the hours in dirty;
--          shift_hours = length of a shift, at most 8 (segments.sql has a bit for each);   cuts = further instants (ms) at which to cut: price changes, local midnights.
-- Reads:   what holds in a stretch is looked for among the facts of its shift: most stretches last for hours, and groups by
--          shift are far fewer than by hour.
CREATE TABLE {stretches:Identifier} ENGINE = Memory AS
WITH
    toInt64({shift_hours:UInt8}) * 3600000 AS shift_ms,
    (SELECT toInt64(min(hour)) * 3600000 FROM {dirty:Identifier}) AS first_ms,
    (SELECT toInt64(max(hour) + 1) * 3600000 FROM {dirty:Identifier}) AS last_ms,
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
            groupArray(greatest(start_ms, shift * shift_ms)) AS begins,
            groupArray(least(end_ms, (shift + 1) * shift_ms)) AS stops,
            groupArray(id) AS ids,
            groupArray(units) AS shares,
            groupArray(available) AS availables,
            groupArray(workload) AS workloads,
            groupArray(part) AS partitions,
            groupArray(is_state) AS are_states,
            arraySort(arrayDistinct(arrayConcat(
                begins, stops, arrayFilter(x -> intDiv(x, shift_ms) = shift, {cuts:Array(Int64)})))) AS points
        FROM facts
        ARRAY JOIN range(
            toUInt32(intDiv(greatest(start_ms, first_ms), shift_ms)),
            toUInt32(intDiv(least(end_ms, last_ms) - 1, shift_ms) + 1)) AS shift
        WHERE shift IN (SELECT intDiv(hour, {shift_hours:UInt8}) FROM {dirty:Identifier})
        GROUP BY device, shift
        HAVING max(is_state)
    ),
    arrayMap((begin, stop) -> begin <= since AND since < stop, begins, stops) AS holds,
    arrayFirstIndex((held, is_state) -> held AND is_state, holds, are_states) AS state
SELECT
    stretch.1 AS since,
    stretch.2 AS until,
    ids[state] AS state_id,
    shares[state] AS device_units,
    availables[state] AS available,
    arraySort(arrayFilter(
        (claim, held, is_state) -> held AND NOT is_state,
        arrayZip(ids, shares, workloads, partitions), holds, are_states)) AS active,
    arraySum(active.2) AS held_units,
    available AND length(active) = 1 AND active[1].2 = device_units AND active[1].4 = 0 AS is_whole
FROM cut
ARRAY JOIN arrayZip(arrayPopBack(points), arrayPopFront(points)) AS stretch
WHERE state > 0
