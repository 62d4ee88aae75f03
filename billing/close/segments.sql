-- One row: a stretch [start_ms, end_ms) of one device and hour in which nothing changes: state, holders, price.
-- Units:   ms since the epoch; hour = hours since the epoch; active = (claim, units, hash of workload, hash of partition).
-- Params:  cuts = further instants (ms) at which to cut: price changes, local midnights.
CREATE TABLE {segments:Identifier} ENGINE = Memory AS
WITH
    hours AS (SELECT hour FROM {dirty:Identifier}),
    (SELECT min(hour) FROM hours) AS first_hour,
    (SELECT max(hour) FROM hours) AS last_hour,
    state_hours AS
    (
        SELECT device, hour,
            groupArray((greatest(start_ms, toInt64(hour) * 3600000), least(end_ms, toInt64(hour + 1) * 3600000), state_id, units, available)) AS states
        FROM {states:Identifier}
        ARRAY JOIN range(
            toUInt32(greatest(intDiv(start_ms, 3600000), first_hour)),
            toUInt32(least(intDiv(end_ms - 1, 3600000), last_hour) + 1)) AS hour
        WHERE hour IN hours
        GROUP BY device, hour
    ),
    claim_hours AS
    (
        SELECT device, hour,
            groupArray((greatest(start_ms, toInt64(hour) * 3600000), least(end_ms, toInt64(hour + 1) * 3600000), claim, units,
                cityHash64(workload_id), if(partition_id = '', 0, cityHash64(partition_id)))) AS claims
        FROM {settled:Identifier}
        ARRAY JOIN range(
            toUInt32(greatest(intDiv(start_ms, 3600000), first_hour)),
            toUInt32(least(intDiv(end_ms - 1, 3600000), last_hour) + 1)) AS hour
        WHERE hour IN hours
        GROUP BY device, hour
    ),
    cut AS
    (
        SELECT
            device,
            hour,
            states,
            arraySort(claims) AS claims,
            arraySort(arrayDistinct(arrayConcat(
                states.1, states.2, claims.1, claims.2,
                arrayFilter(x -> intDiv(x, 3600000) = hour, {cuts:Array(Int64)})))) AS points
        FROM state_hours
        LEFT JOIN claim_hours USING (device, hour)
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
